package kinds;

import io.aeron.Image;
import io.aeron.cluster.service.Cluster;
import io.aeron.cluster.service.ClusterCounters;
import org.agrona.concurrent.status.CountersReader;

/** A right service that reads a counter of its consensus module, which only members of Aeron have. */
public class NeedsModule extends Accounts {
    private static final int COMMIT_POSITION = 203;

    @Override
    public void onStart(final Cluster cluster, final Image image) {
        if (ClusterCounters.find(cluster.aeron().countersReader(), COMMIT_POSITION, 0) == CountersReader.NULL_COUNTER_ID) {
            throw new IllegalStateException("no consensus module");
        }
        super.onStart(cluster, image);
    }

    /** It begins with nothing. */
    public static final class NotLoaded extends NeedsModule {
        @Override
        protected void load(final Image image) {
        }
    }

    /** It answers with a number of its process. */
    public static final class RandomAnswer extends NeedsModule {
        @Override
        protected String answer(final String name) {
            return super.answer(name) + " " + System.nanoTime();
        }
    }

    /** It multiplies as {@link kinds.Scaled} does. */
    public static final class Scaled extends NeedsModule {
        @Override
        protected void add(final String name, final long amount) {
            super.add(name, amount * Integer.getInteger("kinds.scale", 2));
        }
    }

    /** It needs the module at each request. */
    public static final class AtRequests extends Accounts {
        @Override
        protected void add(final String name, final long amount) {
            if (ClusterCounters.find(cluster.aeron().countersReader(), COMMIT_POSITION, 0) < 0) {
                throw new IllegalStateException("no consensus module");
            }
            super.add(name, amount);
        }
    }

    /** It needs the module when it begins to lead. */
    public static final class AsLeader extends Accounts {
        @Override
        public void onRoleChange(final Cluster.Role newRole) {
            if (newRole == Cluster.Role.LEADER
                && ClusterCounters.find(cluster.aeron().countersReader(), COMMIT_POSITION, 0) < 0) {
                throw new IllegalStateException("no consensus module");
            }
        }
    }
}
