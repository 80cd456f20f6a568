package upheaval;

import io.aeron.ExclusivePublication;
import io.aeron.FragmentAssembler;
import io.aeron.Image;
import io.aeron.Publication;
import io.aeron.cluster.codecs.CloseReason;
import io.aeron.cluster.service.ClientSession;
import io.aeron.cluster.service.Cluster;
import io.aeron.cluster.service.ClusteredService;
import io.aeron.logbuffer.Header;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import upheaval.services.DecodeException;
import upheaval.services.Response;
import upheaval.services.SnapshotReader;
import upheaval.services.SnapshotWriter;
import upheaval.services.StateMachine;
import upheaval.services.Surroundings;

/** A state machine as a service of Aeron Cluster. */
final class HostedService implements ClusteredService {
    private static final int FRAGMENT_LIMIT = 10;

    private final StateMachine machine;
    private Cluster cluster;
    private Answers answers;

    HostedService(final StateMachine machine) {
        this.machine = machine;
    }

    @Override
    public void onStart(final Cluster cluster, final Image snapshotImage) {
        this.cluster = cluster;
        answers = new Answers(cluster);
        machine.join(new InCluster());
        if (snapshotImage != null) {
            load(snapshotImage);
        }
    }

    @Override
    public void onSessionMessage(
        final ClientSession session,
        final long timestamp,
        final DirectBuffer buffer,
        final int offset,
        final int length,
        final Header header) {
        final byte[] message = new byte[length];
        buffer.getBytes(offset, message);
        if (session == null) {
            machine.onServiceMessage(message, cluster.logPosition());
            return;
        }
        final Response response = machine.perform(message, cluster.logPosition());
        if (response != null && answers.areSent()) {
            answers.send(session, response.encode());
        }
    }

    @Override
    public void onTimerEvent(final long correlationId, final long timestamp) {
        machine.onTimer(correlationId, timestamp);
    }

    @Override
    public void onTakeSnapshot(final ExclusivePublication snapshotPublication) {
        new SnapshotWriter(message -> {
            final UnsafeBuffer buffer = new UnsafeBuffer(message);
            untilTaken(() -> snapshotPublication.offer(buffer, 0, message.length));
        }).write(machine);
    }

    @Override
    public void onSessionOpen(final ClientSession session, final long timestamp) {
    }

    @Override
    public void onSessionClose(final ClientSession session, final long timestamp, final CloseReason closeReason) {
        answers.forget(session);
    }

    @Override
    public void onRoleChange(final Cluster.Role newRole) {
    }

    @Override
    public void onTerminate(final Cluster cluster) {
    }

    private void load(final Image image) {
        final SnapshotReader reader = new SnapshotReader(machine);
        final FragmentAssembler assembler = new FragmentAssembler((buffer, offset, length, header) -> {
            final byte[] message = new byte[length];
            buffer.getBytes(offset, message);
            try {
                reader.accept(message);
            } catch (final DecodeException error) {
                throw new IllegalStateException(error);
            }
        });
        cluster.idleStrategy().reset();
        while (!reader.isComplete()) {
            final int fragments = image.poll(assembler, FRAGMENT_LIMIT);
            if (fragments == 0 && (image.isClosed() || image.isEndOfStream())) {
                throw new IllegalStateException("state ends without its end");
            }
            cluster.idleStrategy().idle(fragments);
        }
    }

    /** The cluster must not miss what a service asks: only a stream that has ended is given up. */
    private void untilTaken(final Offer offer) {
        cluster.idleStrategy().reset();
        for (long result = offer.result(); result <= 0; result = offer.result()) {
            if (result == Publication.CLOSED || result == Publication.MAX_POSITION_EXCEEDED) {
                throw new IllegalStateException("offer failed: " + Publication.errorString(result));
            }
            cluster.idleStrategy().idle();
        }
    }

    /** Gives a positive position when the stream took it. */
    @FunctionalInterface
    private interface Offer {
        long result();
    }

    /** What the machine asks goes to the consensus module of this member. */
    private final class InCluster implements Surroundings {
        @Override
        public long time() {
            return cluster.time();
        }

        @Override
        public void offer(final byte[] message) {
            final UnsafeBuffer buffer = new UnsafeBuffer(message);
            untilTaken(() -> cluster.offer(buffer, 0, message.length));
        }

        @Override
        public void scheduleTimer(final long timerId, final long deadline) {
            untilTaken(() -> cluster.scheduleTimer(timerId, deadline) ? 1 : Publication.BACK_PRESSURED);
        }

        @Override
        public void cancelTimer(final long timerId) {
            untilTaken(() -> cluster.cancelTimer(timerId) ? 1 : Publication.BACK_PRESSURED);
        }
    }
}
