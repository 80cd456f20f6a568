package upheaval.replay;

import io.aeron.cluster.codecs.ClusterAction;
import io.aeron.cluster.codecs.ClusterActionRequestDecoder;
import io.aeron.cluster.codecs.ClusterTimeUnit;
import io.aeron.cluster.codecs.MessageHeaderDecoder;
import io.aeron.cluster.codecs.NewLeadershipTermEventDecoder;
import io.aeron.cluster.codecs.SessionCloseEventDecoder;
import io.aeron.cluster.codecs.SessionMessageHeaderDecoder;
import io.aeron.cluster.codecs.SessionOpenEventDecoder;
import io.aeron.cluster.codecs.TimerEventDecoder;
import io.aeron.cluster.client.AeronCluster;
import io.aeron.cluster.service.Cluster;
import io.aeron.cluster.service.ClusteredService;
import io.aeron.cluster.service.ClusteredServiceContainer;
import io.aeron.logbuffer.FrameDescriptor;
import io.aeron.logbuffer.Header;
import io.aeron.protocol.DataHeaderFlyweight;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.agrona.BitUtil;
import org.agrona.concurrent.UnsafeBuffer;

/** One copy of a service, which reads a log from its beginning, or from a snapshot on. */
final class Copy {
    private static final int TERM_BITS = 30;
    private static final int TEXT_MAX = 300;

    private final MessageHeaderDecoder messageHeader = new MessageHeaderDecoder();
    private final SessionMessageHeaderDecoder sessionMessage = new SessionMessageHeaderDecoder();
    private final SessionOpenEventDecoder sessionOpen = new SessionOpenEventDecoder();
    private final SessionCloseEventDecoder sessionClose = new SessionCloseEventDecoder();
    private final TimerEventDecoder timerEvent = new TimerEventDecoder();
    private final NewLeadershipTermEventDecoder newTerm = new NewLeadershipTermEventDecoder();
    private final ClusterActionRequestDecoder action = new ClusterActionRequestDecoder();

    private final Header header = new Header(0, TERM_BITS);
    private final UnsafeBuffer frame = new UnsafeBuffer(new byte[DataHeaderFlyweight.HEADER_LENGTH]);
    private final Effects effects = new Effects();
    private final SnapshotStreams streams;
    private final Report report;
    private final Plan.Member member;
    private final ServiceClasses classes;
    private final ClusteredService service;
    private final LogCluster cluster;

    /** Throws {@link IllegalArgumentException} with one line for a class that is no service. */
    Copy(
        final String name,
        final List<String> classPath,
        final SnapshotStreams streams,
        final Report report,
        final Plan.Member member) {
        this.streams = streams;
        this.report = report;
        this.member = member;
        classes = new ServiceClasses(classPath);
        Thread.currentThread().setContextClassLoader(classes);
        service = classes.make(name);
        cluster = new LogCluster(new ClusteredServiceContainer.Context()
            .aeron(streams.aeron()).serviceId(0).serviceName(name).clusteredService(service), effects, member.id());
        header.buffer(frame).offset(0);
    }

    /** Takes a snapshot after each of the numbers of entries in {@code cuts}, and adds it to {@code begun}. */
    void play(final List<Entry> log, final Plan plan, final List<Beginning> begun, final Set<Integer> cuts) {
        try {
            start(plan, begun);
            for (int index = plan.begin(); index < log.size(); index++) {
                if (cuts.contains(index)) {
                    begun.add(cluster.beginning(index, snapshot()));
                    report.effects(index - 1, effects.take());
                }
                apply(log.get(index), index);
                if (member.doesBackgroundWork()) {
                    call(() -> service.doBackgroundWork(System.nanoTime()), "doBackgroundWork");
                }
                report.effects(index, effects.take());
            }
            final List<byte[]> last = snapshot();
            if (cuts.contains(log.size())) {
                begun.add(cluster.beginning(log.size(), last));
            }
            report.snapshot(log.size(), cluster.logPosition, last, false);
            report.ended("");
        } catch (final Failure failure) {
            report.ended(failure.getMessage());
        }
    }

    private void start(final Plan plan, final List<Beginning> begun) {
        final Beginning beginning = begun.stream()
            .filter(each -> plan.begin() > 0 && each.entries() == plan.begin()).findFirst().orElse(null);
        try {
            cluster.lifecycle = "onStart";
            if (plan.begin() == 0) {
                service.onStart(cluster, null);
            } else if (beginning == null) {
                throw new Failure("no snapshot was taken after " + plan.begin() + " entries");
            } else {
                cluster.begin(beginning);
                streams.read(beginning.snapshot(), image -> service.onStart(cluster, image));
            }
        } catch (final Failure | OutOfMemoryError failure) {
            throw failure;
        } catch (final Throwable error) {
            // An Error of the service is one of its own, too, but copies share the memory.
            throw new Failure("onStart raises " + text(error));
        }
        cluster.lifecycle = null;
        if (member.role() == Cluster.Role.LEADER) {
            changeRole(Cluster.Role.LEADER);
        }
        report.effects(plan.begin() - 1, effects.take());
    }

    private void changeRole(final Cluster.Role role) {
        cluster.role = role;
        call(() -> service.onRoleChange(role), "onRoleChange");
    }

    private List<byte[]> snapshot() {
        try {
            return streams.written(service::onTakeSnapshot);
        } catch (final OutOfMemoryError error) {
            throw error;
        } catch (final Throwable error) {
            // As in onStart.
            throw new Failure("onTakeSnapshot raises " + text(error));
        }
    }

    private void apply(final Entry entry, final int index) {
        final UnsafeBuffer buffer = new UnsafeBuffer(entry.content());
        cluster.logPosition = entry.position();
        if (buffer.capacity() < MessageHeaderDecoder.ENCODED_LENGTH) {
            return;
        }
        messageHeader.wrap(buffer, 0);
        if (messageHeader.schemaId() != MessageHeaderDecoder.SCHEMA_ID) {
            return;
        }
        switch (messageHeader.templateId()) {
            case SessionMessageHeaderDecoder.TEMPLATE_ID -> onMessage(buffer, entry);
            case TimerEventDecoder.TEMPLATE_ID -> onTimer(buffer);
            case SessionOpenEventDecoder.TEMPLATE_ID -> onOpen(buffer);
            case SessionCloseEventDecoder.TEMPLATE_ID -> onClose(buffer);
            case NewLeadershipTermEventDecoder.TEMPLATE_ID -> onTerm(buffer);
            case ClusterActionRequestDecoder.TEMPLATE_ID -> onAction(buffer, index);
            default -> {
            }
        }
    }

    private void onMessage(final UnsafeBuffer buffer, final Entry entry) {
        sessionMessage.wrapAndApplyHeader(buffer, 0, messageHeader);
        final long timestamp = sessionMessage.timestamp();
        cluster.time = timestamp;
        setHeader(entry);
        final int offset = AeronCluster.SESSION_HEADER_LENGTH;
        call(() -> service.onSessionMessage(
            cluster.getClientSession(sessionMessage.clusterSessionId()), timestamp, buffer, offset,
            buffer.capacity() - offset, header), "onSessionMessage");
    }

    /** So that its position is the end of the entry. */
    private void setHeader(final Entry entry) {
        final int length = DataHeaderFlyweight.HEADER_LENGTH + entry.content().length;
        final long begin = Math.max(0, entry.position() - BitUtil.align(length, FrameDescriptor.FRAME_ALIGNMENT));
        frame.putInt(DataHeaderFlyweight.FRAME_LENGTH_FIELD_OFFSET, length);
        frame.putInt(DataHeaderFlyweight.TERM_OFFSET_FIELD_OFFSET, (int)(begin & (1L << TERM_BITS) - 1));
        frame.putInt(DataHeaderFlyweight.TERM_ID_FIELD_OFFSET, (int)(begin >> TERM_BITS));
        frame.putByte(DataHeaderFlyweight.FLAGS_FIELD_OFFSET, (byte)DataHeaderFlyweight.BEGIN_AND_END_FLAGS);
    }

    private void onTimer(final UnsafeBuffer buffer) {
        timerEvent.wrapAndApplyHeader(buffer, 0, messageHeader);
        final long id = timerEvent.correlationId();
        cluster.time = timerEvent.timestamp();
        call(() -> service.onTimerEvent(id, cluster.time), "onTimerEvent");
    }

    private void onOpen(final UnsafeBuffer buffer) {
        sessionOpen.wrapAndApplyHeader(buffer, 0, messageHeader);
        cluster.time = sessionOpen.timestamp();
        final String channel = sessionOpen.responseChannel();
        final byte[] principal = new byte[sessionOpen.encodedPrincipalLength()];
        sessionOpen.getEncodedPrincipal(principal, 0, principal.length);
        final LogSession session = new LogSession(
            sessionOpen.clusterSessionId(), sessionOpen.responseStreamId(), channel, principal, effects);
        cluster.opened(session);
        call(() -> service.onSessionOpen(session, cluster.time), "onSessionOpen");
    }

    private void onClose(final UnsafeBuffer buffer) {
        sessionClose.wrapAndApplyHeader(buffer, 0, messageHeader);
        cluster.time = sessionClose.timestamp();
        final LogSession session = cluster.closed(sessionClose.clusterSessionId());
        if (session != null) {
            call(() -> service.onSessionClose(session, cluster.time, sessionClose.closeReason()), "onSessionClose");
        }
    }

    /** A leader of several terms followed between them. */
    private void onTerm(final UnsafeBuffer buffer) {
        newTerm.wrapAndApplyHeader(buffer, 0, messageHeader);
        final boolean isFirst = cluster.time == 0;
        cluster.time = newTerm.timestamp();
        cluster.timeUnit = timeUnit(newTerm.timeUnit());
        if (member.role() == Cluster.Role.LEADER && !isFirst) {
            changeRole(Cluster.Role.FOLLOWER);
            changeRole(Cluster.Role.LEADER);
        }
        call(() -> service.onNewLeadershipTermEvent(newTerm.leadershipTermId(), newTerm.logPosition(),
            newTerm.timestamp(), newTerm.termBaseLogPosition(), newTerm.leaderMemberId(), newTerm.logSessionId(),
            cluster.timeUnit, newTerm.appVersion()), "onNewLeadershipTermEvent");
    }

    private static TimeUnit timeUnit(final ClusterTimeUnit unit) {
        return switch (unit) {
            case NANOS -> TimeUnit.NANOSECONDS;
            case MICROS -> TimeUnit.MICROSECONDS;
            default -> TimeUnit.MILLISECONDS;
        };
    }

    private void onAction(final UnsafeBuffer buffer, final int index) {
        action.wrapAndApplyHeader(buffer, 0, messageHeader);
        cluster.time = action.timestamp();
        if (action.action() == ClusterAction.SNAPSHOT) {
            report.snapshot(index + 1, cluster.logPosition, snapshot(), true);
        }
    }

    /** What it throws leaves the state as it is, and the log goes on, as in a member. */
    private void call(final Runnable callback, final String name) {
        cluster.lifecycle = "onRoleChange".equals(name) || "doBackgroundWork".equals(name) ? name : null;
        try {
            callback.run();
        } catch (final OutOfMemoryError error) {
            throw error;
        } catch (final Throwable error) {
            // Whatever it is: the container of a member catches it, too.
            effects.raised(name + " raises " + text(error));
        }
        cluster.lifecycle = null;
    }

    /** What, and where in the code of the service. */
    private String text(final Throwable error) {
        final String what = String.valueOf(error).lines().findFirst().orElse("");
        final String where = Arrays.stream(error.getStackTrace())
            .filter(this::isOfService)
            .findFirst()
            .map(each -> ", at " + each.getFileName() + ":" + each.getLineNumber() + " in " + each.getMethodName())
            .orElse("");
        return what.substring(0, Math.min(what.length(), TEXT_MAX)) + where;
    }

    private boolean isOfService(final StackTraceElement frame) {
        final String place = service.getClass().getPackageName();
        return frame.getClassName().startsWith(place.isEmpty() ? service.getClass().getName() : place + ".");
    }

    /** Why a copy cannot go on. */
    private static final class Failure extends RuntimeException {
        private static final long serialVersionUID = 1L;

        Failure(final String text) {
            super(text);
        }
    }
}
