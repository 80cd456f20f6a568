package upheaval.replay;

import java.util.List;
import java.util.concurrent.TimeUnit;

/** What a copy begins with after a number of entries: a snapshot, and what the log gave until there. */
record Beginning(
    int entries, List<byte[]> snapshot, long position, long time, TimeUnit timeUnit, List<LogSession> sessions) {
}
