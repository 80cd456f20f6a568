package upheaval.services;

/** What a service asks of the cluster that it runs in. */
public interface Surroundings {
    /** Cluster time at the entry that is being processed. */
    long time();

    /** Put a message from the service itself into the log. */
    void offer(byte[] message);

    /** Ask for {@link StateMachine#onTimer} at or after the deadline. */
    void scheduleTimer(long timerId, long deadline);

    /** Cancel a timer; it may still fire. */
    void cancelTimer(long timerId);
}
