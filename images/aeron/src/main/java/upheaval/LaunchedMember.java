package upheaval;

import io.aeron.archive.Archive;
import io.aeron.cluster.ConsensusModule;
import io.aeron.cluster.service.ClusteredService;
import io.aeron.cluster.service.ClusteredServiceContainer;
import io.aeron.cluster.service.ClusteredServiceContainer.Configuration;
import io.aeron.driver.MediaDriver;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Field;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.agrona.CloseHelper;
import org.agrona.ErrorHandler;
import org.agrona.concurrent.IdleStrategy;
import sun.misc.Signal;
import sun.misc.SignalHandler;

/**
 * A member whose components a program of the user's launches: traced as {@link Member} is.
 *
 * <p>Error handlers, termination hooks, the module's idle strategy, the name resolver and the service of the program's
 * contexts are called as before; the trace comes first. Nothing is written before the first component is launched, because
 * a program may start other virtual machines, which get the agent, too. A context that a program launches once more keeps
 * what is the program's, and gets ours anew.
 */
final class LaunchedMember {
    private static final long CLOSE_NS = TimeUnit.SECONDS.toNanos(9);
    private static final long SIGNALS_MS = 20;

    private final MemberConfig config;
    private final Ending ending = new Ending();
    private Trace trace;
    private final Map<Integer, TracedService> services = new ConcurrentHashMap<>();
    private volatile ModuleWatch watch;
    /** Null where the loop of the module shows the stalls. */
    private volatile StallWatch process;
    /** The thread in which the module's hook runs, if it does. */
    private volatile Thread moduleInHook;
    private volatile String whyUnstarted;
    /** The last handler of ours for each signal that is watched. */
    private final Map<Signal, OrderFirst> signals = new HashMap<>();

    LaunchedMember(final MemberConfig config) {
        this.config = config;
    }

    synchronized void prepare(final MediaDriver.Context driver) {
        begin();
        require("MediaDriver", "aeronDirectoryName", driver.aeronDirectoryName(), config.aeronDirectory);
        driver.errorHandler(both(Errors.of("driver", ending, trace), driver.errorHandler()));
        final Runnable hook = Hook.theirs(driver.terminationHook());
        if (hook != null) {
            driver.terminationHook(new Hook(hook, () -> endBy("driver", hook)));
        }
        new Names(config.names).install(driver);
    }

    synchronized void prepare(final Archive.Context archive) {
        begin();
        require("Archive", "archiveDir", archive.archiveDir(), new File(archive.archiveDirectoryName()), "archive");
        archive.errorHandler(both(Errors.of("archive", ending, trace), archive.errorHandler()));
    }

    synchronized void prepare(final ConsensusModule.Context module) {
        begin();
        require("ConsensusModule", "clusterMemberId", module.clusterMemberId(), config.memberId);
        require("ConsensusModule", "clusterMembers", module.clusterMembers(), config.members);
        require("ConsensusModule", "clusterDir", module.clusterDir(), new File(module.clusterDirectoryName()), "cluster");
        module.errorHandler(both(Errors.of("module", ending, trace), module.errorHandler()));
        final Supplier<IdleStrategy> idle = idleOf(module);
        watch = idle == null
            ? new ModuleWatch(trace, config.memberId) : new ModuleWatch(trace, config.memberId, idle.get());
        if ((idle != null || module.useAgentInvoker()) && process == null) {
            process = StallWatch.ofProcess(trace);
        }
        module.idleStrategySupplier(new Idle(watch, idle));
        final Runnable hook = Hook.theirs(module.terminationHook());
        if (hook != null) {
            module.terminationHook(new Hook(hook, () -> {
                watch.lookAtEnd();
                moduleInHook = Thread.currentThread();
                endBy("module", hook);
                moduleInHook = null;
            }));
        }
        watch.watch(module);
    }

    synchronized void prepare(final ClusteredServiceContainer.Context container) {
        begin();
        final int serviceId = container.serviceId();
        ClusteredService service = container.clusteredService();
        if (service == null) {
            service = MemberServices.make(config.services.get(serviceId));
        }
        if (service instanceof TracedService ours) {
            service = ours.service();
        }
        final TracedService traced = new TracedService(service, trace, serviceId, cluster -> {
            if (watch != null) {
                watch.lookAtTermination(cluster);
            }
        });
        services.put(serviceId, traced);
        container.clusteredService(traced);
        final String component = "service-" + serviceId;
        container.errorHandler(both(Errors.ofService(component, ending, trace, traced), container.errorHandler()));
        final Runnable hook = Hook.theirs(container.terminationHook());
        if (hook != null) {
            container.terminationHook(new Hook(hook, () -> endBy(component, hook)));
        }
    }

    /** Launch a component. What it throws ends the program, unless that tries again. */
    <T> T launched(final Supplier<T> launch) {
        try {
            final T component = launch.get();
            whyUnstarted = null;
            return component;
        } catch (final RuntimeException | Error error) {
            whyUnstarted = "start: " + Errors.text(error);
            throw error;
        }
    }

    private void begin() {
        if (trace != null) {
            return;
        }
        takeSignals();
        final Siblings siblings;
        try {
            trace = new Trace(config.folder.resolve("trace.jsonl"), config.memberId, Component.ALL.traced(), config.runId);
            siblings = new Siblings(config.folder, Component.ALL);
        } catch (final IOException error) {
            throw new UncheckedIOException(error);
        }
        trace.event("process-start", "system", "aeron", "version", AeronVersion.running());
        Runtime.getRuntime().addShutdownHook(new Thread(() -> end(siblings), "upheaval-end"));
    }

    /** The program may install handlers of its own at any time, and those of Agrona up to 1.48 call no other. */
    private void takeSignals() {
        Signals.NAMES.forEach(name -> signals.put(new Signal(name), new OrderFirst(null)));
        signals.keySet().removeIf(signal -> !takeSignal(signal));
        final Thread thread = new Thread(() -> {
            while (!signals.isEmpty()) {
                sleep(SIGNALS_MS);
                // An interrupt must not make this a busy loop.
                Thread.interrupted();
                signals.keySet().removeIf(signal -> !takeSignal(signal));
            }
        }, "upheaval-signals");
        thread.setDaemon(true);
        thread.start();
    }

    /**
     * The program's own handler, which closes its components, comes after the note of who wanted that. Returns whether the
     * program handles the signal: one that it ignores or leaves to the system stays so.
     */
    private boolean takeSignal(final Signal signal) {
        final OrderFirst last = signals.get(signal);
        final SignalHandler found = Signal.handle(signal, last);
        if (found == SignalHandler.SIG_IGN || found == SignalHandler.SIG_DFL) {
            Signal.handle(signal, found);
            return false;
        }
        if (found != last && last.others == null) {
            last.others = found;
        } else if (found != last) {
            final OrderFirst next = found instanceof OrderFirst earlier ? earlier : new OrderFirst(found);
            signals.put(signal, next);
            final SignalHandler newer = Signal.handle(signal, next);
            if (newer != last) {
                Signal.handle(signal, newer);
            }
        }
        return true;
    }

    private void endBy(final String component, final Runnable hook) {
        ending.onHook(component);
        hook.run();
    }

    /**
     * In the shutdown of the virtual machine: the program closes its components before, or by a hook of its own. What they
     * do after the end is no part of the trace.
     */
    private void end(final Siblings siblings) {
        final long deadline = System.nanoTime() + CLOSE_NS;
        while (watch != null && watch.isOpen() && !endsProgram(moduleInHook) && System.nanoTime() < deadline) {
            sleep(5);
        }
        if (watch != null) {
            watch.closed();
        }
        ending.onProgramEnd(
            whyUnstarted == null ? "the program ended by itself" : whyUnstarted,
            !services.isEmpty() && services.values().stream().allMatch(TracedService::isTerminated)
                && watch != null && watch.wasTerminating());
        final long longestStallNs = Stream.of(watch, process)
            .filter(Objects::nonNull).mapToLong(StallWatch::longestStallNs).max().orElse(0);
        ending.trace(trace, watch, config.services.size(), siblings, longestStallNs);
        CloseHelper.quietClose(trace);
    }

    /** Whether a thread waits in {@link System#exit} for the end of the virtual machine. */
    private static boolean endsProgram(final Thread thread) {
        return thread != null
            && Arrays.stream(thread.getStackTrace()).anyMatch(frame -> frame.getClassName().equals("java.lang.Shutdown"));
    }

    private void require(final String component, final String name, final File set, final File other, final String folder) {
        final Path actual = (set == null ? other : set).toPath();
        require(component, name, actual.toAbsolutePath().normalize(), config.folder.resolve(folder).toAbsolutePath().normalize());
    }

    private static void require(final String component, final String name, final Object actual, final Object expected) {
        if (!expected.equals(actual)) {
            System.err.println("launcher: expected " + component + ".Context." + name + " " + expected + ", got " + actual
                + ": leave it as the context's constructor sets it");
            Runtime.getRuntime().halt(Status.USAGE.code);
        }
    }

    private static ErrorHandler both(final ErrorHandler first, final ErrorHandler second) {
        return new Both(first, second instanceof Both earlier ? earlier.theirs : second);
    }

    /** There is a setter alone. That of a system property counts where none is set. Null for the strategy of Aeron's own. */
    @SuppressWarnings("unchecked")
    private Supplier<IdleStrategy> idleOf(final ConsensusModule.Context module) {
        try {
            final Field field = ConsensusModule.Context.class.getDeclaredField("idleStrategySupplier");
            field.setAccessible(true);
            final Supplier<IdleStrategy> found = (Supplier<IdleStrategy>)field.get(module);
            final Supplier<IdleStrategy> set = found instanceof Idle ours ? ours.theirs : found;
            return set == null && System.getProperty(Configuration.CLUSTER_IDLE_STRATEGY_PROP_NAME) != null
                ? Configuration.idleStrategySupplier(null) : set;
        } catch (final ReflectiveOperationException | RuntimeException otherVersion) {
            trace.event("error", "kind", "WARN idleStrategySupplier", "where", "", "text",
                "module: the idle strategy of the program is not used: " + otherVersion, "traceback", null);
            return null;
        }
    }

    private static void sleep(final long ms) {
        try {
            TimeUnit.MILLISECONDS.sleep(ms);
        } catch (final InterruptedException hurried) {
            Thread.currentThread().interrupt();
        }
    }

    /** Two handlers of errors; the program may have none. */
    private record Both(ErrorHandler ours, ErrorHandler theirs) implements ErrorHandler {
        @Override
        public void onError(final Throwable error) {
            ours.onError(error);
            if (theirs != null) {
                theirs.onError(error);
            }
        }
    }

    /** A hook in the place of the program's. */
    private record Hook(Runnable theirs, Runnable ours) implements Runnable {
        static Runnable theirs(final Runnable hook) {
            return hook instanceof Hook earlier ? earlier.theirs : hook;
        }

        @Override
        public void run() {
            ours.run();
        }
    }

    /** The watch in the place of the program's strategy, which may be null. */
    private record Idle(ModuleWatch watch, Supplier<IdleStrategy> theirs) implements Supplier<IdleStrategy> {
        @Override
        public IdleStrategy get() {
            return watch;
        }
    }

    private final class OrderFirst implements SignalHandler {
        /** Null until the handler before is known. */
        private volatile SignalHandler others;

        OrderFirst(final SignalHandler others) {
            this.others = others;
        }

        @Override
        public void handle(final Signal signal) {
            ending.order("SIG" + signal.getName());
            while (others == null) {
                Thread.onSpinWait();
            }
            others.handle(signal);
        }
    }
}
