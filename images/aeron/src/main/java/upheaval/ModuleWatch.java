package upheaval;

import io.aeron.Aeron;
import io.aeron.Counter;
import io.aeron.cluster.ClusterControl;
import io.aeron.cluster.ConsensusModule;
import io.aeron.cluster.ElectionState;
import io.aeron.cluster.service.Cluster;
import io.aeron.cluster.service.ClusterCounters;
import org.agrona.concurrent.IdleStrategy;
import org.agrona.concurrent.status.CountersReader;

/**
 * Looks at a consensus module after each of its duty cycles, in its own thread, and traces what has changed: the states
 * of the module and of its elections, its role, a commit position that goes back, and stalls of its loop.
 *
 * <p>The module calls its idle strategy once a cycle. An election that goes through two states within one cycle shows
 * the later one.
 */
final class ModuleWatch extends StallWatch {
    private final int memberId;
    private ConsensusModule.Context module;

    private volatile ConsensusModule.State state;
    private ElectionState electionState;
    private Cluster.Role role;
    private volatile long leadershipTermId = -1;
    private volatile long commitPosition = -1;
    private volatile boolean hasEnded;
    private volatile boolean wasTerminating;

    ModuleWatch(final Trace trace, final int memberId) {
        super(trace);
        this.memberId = memberId;
    }

    /** Idles as {@code idleStrategy} does, however long that sleeps. */
    ModuleWatch(final Trace trace, final int memberId, final IdleStrategy idleStrategy) {
        super(trace, idleStrategy, Long.MAX_VALUE);
        this.memberId = memberId;
    }

    /** Before the module starts: whose counters to look at. */
    void watch(final ConsensusModule.Context context) {
        module = context;
    }

    /** As the last cycle left it; -1 before there was one. */
    long leadershipTermId() {
        return leadershipTermId;
    }

    /** As the last cycle left it; -1 before there was one. */
    long commitPosition() {
        return commitPosition;
    }

    @Override
    void afterCycle() {
        measure();
        look();
    }

    /** An invoker calls no idle strategy between cycles: the module does where it waits. */
    private void measure() {
        if (!module.useAgentInvoker()) {
            measureStall();
        }
    }

    /** Whether the module was seen to end with its cluster, or to leave it. If an invoker runs it, that cannot be seen. */
    boolean wasTerminating() {
        return wasTerminating || module.useAgentInvoker();
    }

    /**
     * The module ends a service, in whose thread this is. It waits for the service in its state of the end, but may go on
     * and close within one cycle. The service's client reads the state: that of the module may be closed at any time.
     */
    void lookAtTermination(final Cluster cluster) {
        if (!isOpen() || cluster.aeron().isClosed()) {
            return;
        }
        final CountersReader counters = cluster.aeron().countersReader();
        final int found = ClusterCounters.find(
            counters, ConsensusModule.Configuration.CONSENSUS_MODULE_STATE_TYPE_ID, cluster.context().clusterId());
        if (found != Aeron.NULL_VALUE && isEnd(counters.getCounterValue(found))) {
            wasTerminating = true;
        }
    }

    /** Whether the module went through a cycle and is still open. */
    boolean isOpen() {
        return state != null && isOpen(module.electionStateCounter());
    }

    /** The module ends, in a cycle after which it calls no idle strategy. */
    void lookAtEnd() {
        hasEnded = true;
        measure();
        if (isOpen(module.electionStateCounter()) && isOpen(module.leadershipTermIdCounter())) {
            lookAtPlace();
        }
        // A leader orders the end of its services before it changes its state, and keeps the operator's command.
        if (isOpen(module.controlToggleCounter()) && isOrdered(module.controlToggleCounter())) {
            wasTerminating = true;
        }
    }

    private static boolean isOrdered(final Counter toggle) {
        final ClusterControl.ToggleState command = ClusterControl.ToggleState.get(toggle);
        return command == ClusterControl.ToggleState.SHUTDOWN || command == ClusterControl.ToggleState.ABORT;
    }

    /**
     * The module was closed, and looks after nothing any more. If an invoker ran it and did not end it, the last look was
     * long before.
     */
    void closed() {
        if (state != null && module.useAgentInvoker() && !hasEnded) {
            commitPosition = -1;
        }
        if (state != null) {
            lookAtState(ConsensusModule.State.CLOSED);
        }
    }

    private void look() {
        if (!isOpen(module.electionStateCounter()) || !isOpen(module.leadershipTermIdCounter())) {
            return;
        }
        lookAtPlace();
        lookAtState(ConsensusModule.State.get(module.moduleStateCounter().get()));
        lookAtRole(Cluster.Role.get((int)module.clusterNodeRoleCounter().get()));
        lookAtElection(ElectionState.get(module.electionStateCounter().get()));
    }

    private void lookAtPlace() {
        leadershipTermId = module.leadershipTermIdCounter().get();
        if (isOpen(module.commitPositionCounter())) {
            lookAtCommitPosition(module.commitPositionCounter().get());
        }
    }

    private void lookAtCommitPosition(final long found) {
        if (found < commitPosition) {
            trace.event("commit-went-back", "old", commitPosition, "new", found);
        }
        commitPosition = found;
    }

    private void lookAtState(final ConsensusModule.State found) {
        if (found != state) {
            if (state != null) {
                trace.event("module_state", "old", state.name(), "new", found.name());
            }
            state = found;
            if (isEnd(found.code())) {
                wasTerminating = true;
            }
        }
    }

    private void lookAtRole(final Cluster.Role found) {
        if (found != role) {
            if (role != null) {
                trace.event("role", "old", role.name(), "new", found.name());
            }
            role = found;
        }
    }

    /** Names a leader only where it is this member: no counter says whom it follows. */
    private void lookAtElection(final ElectionState found) {
        if (found == electionState) {
            return;
        }
        electionState = found;
        // Its term is begun by an entry in the log right after LEADER_READY.
        if (found == ElectionState.LEADER_READY || found == ElectionState.CLOSED && role == Cluster.Role.LEADER) {
            trace.event("election_state", "state", found.name(), "leadership_term_id", leadershipTermId,
                "log_position", commitPosition, "leader_member_id", memberId);
        } else {
            trace.event("election_state", "state", found.name(), "leadership_term_id", leadershipTermId,
                "log_position", commitPosition);
        }
    }

    private static boolean isEnd(final long state) {
        return state == ConsensusModule.State.TERMINATING.code() || state == ConsensusModule.State.QUITTING.code();
    }

    private static boolean isOpen(final Counter counter) {
        return counter != null && !counter.isClosed();
    }
}
