package upheaval.replay;

import io.aeron.cluster.service.Cluster;
import java.io.DataInputStream;
import java.io.IOException;

/**
 * What a copy does: it begins after that many entries, with the snapshot that the first copy took there, or with nothing
 * at 0, and leads, or does not.
 */
record Plan(int begin, Member member) {
    /** As whom a copy reads the log. */
    record Member(int id, Cluster.Role role, boolean doesBackgroundWork) {
    }

    /** int32 begin, int32 member id, uint8 whether it leads, uint8 whether it does background work after each entry. */
    static Plan read(final DataInputStream in) throws IOException {
        final int begin = in.readInt();
        final int id = in.readInt();
        final Cluster.Role role = in.readBoolean() ? Cluster.Role.LEADER : Cluster.Role.FOLLOWER;
        return new Plan(begin, new Member(id, role, in.readBoolean()));
    }
}
