package upheaval;

import java.util.concurrent.CountDownLatch;

/**
 * Why the member ends. The first reason counts; but the components run their termination hooks before they say why,
 * so a hook's word counts only where no reason follows. Safe for use by several threads.
 */
final class Ending {
    private final CountDownLatch begun = new CountDownLatch(1);
    private boolean isOrdered;
    private boolean isExpected;
    private boolean isDefect;
    private boolean isModuleLost;
    private String reason;
    private String hook;
    private String fatal;

    /** The member has to end for a reason outside of it. */
    synchronized void order(final String signal) {
        if (begun.getCount() > 0) {
            isOrdered = true;
            reason = signal;
            begun.countDown();
        }
    }

    /** A component ends, and why is not known yet. */
    synchronized void onHook(final String component) {
        if (hook == null) {
            hook = component + " ended";
        }
        begun.countDown();
    }

    /** A service ends because its module has ended. The module reports the reason if it runs in this process. */
    synchronized void onModuleLost(final String component) {
        if (hook == null || hook.startsWith(component)) {
            hook = component + ": its module has ended";
        }
        isModuleLost = true;
        begun.countDown();
    }

    /** A component ends; {@code expected} when its cluster ordered it. */
    synchronized void onTermination(final String component, final String text, final boolean expected) {
        if (reason == null) {
            reason = component + ": " + text;
            isExpected = expected;
        }
        begun.countDown();
    }

    /**
     * The program of the member ends, for {@code why} where nothing else has ended it. A hook that ends the program keeps
     * its component from giving the reason: then the cluster has ended if it {@code hasTerminated} module and services.
     */
    synchronized void onProgramEnd(final String why, final boolean hasTerminated) {
        if (reason != null) {
            return;
        }
        isExpected = hook != null && fatal == null && !isModuleLost && hasTerminated;
        reason = hook == null ? why : hook;
        begun.countDown();
    }

    /** A component is broken by an unforeseen error, and may be stuck. */
    synchronized void onDefect(final String component, final String text) {
        isDefect |= reason == null;
        onTermination(component, text, false);
    }

    /** Something after which components will end. */
    synchronized void onFatal(final String component, final String text) {
        if (fatal == null) {
            fatal = component + ": " + text;
        }
    }

    /** Whether there is a reason to end. */
    boolean hasBegun() {
        return begun.getCount() == 0;
    }

    /** Wait until there is a reason to end. */
    void await() throws InterruptedException {
        begun.await();
    }

    /** Whether the end is that of the whole cluster, in good order. */
    synchronized boolean isOfCluster() {
        return isExpected;
    }

    /** Write the end to the trace, and return its status. {@code module} is null in a process without the module. */
    Status trace(
        final Trace trace,
        final ModuleWatch module,
        final int services,
        final Siblings siblings,
        final long longestStallNs) {
        if (isOfCluster() && module != null) {
            trace.event("cluster-end",
                "log_position", module.commitPosition(),
                "leadership_term_id", module.leadershipTermId(),
                "requested_term_id", module.leadershipTermId(),
                "services", services);
        }
        final Status status = status(siblings);
        trace.event("process-end",
            "status", status.code,
            "status_name", status.name(),
            "reason", reason(),
            "longest_stall_ns", longestStallNs);
        return status;
    }

    /** OK if an operator or the cluster ordered the end. */
    synchronized Status status(final Siblings siblings) {
        if (isOrdered || isExpected) {
            return Status.OK;
        }
        if (isDefect) {
            return Status.INTERNAL_ERROR;
        }
        return siblings.isOneGone() ? Status.COMPONENT_LOST : Status.TERMINATED;
    }

    /** In words. */
    synchronized String reason() {
        final String why = reason == null ? hook : reason;
        return fatal == null || isOrdered || isExpected ? why : why + "; before that, " + fatal;
    }
}
