package kinds;

import io.aeron.Image;
import io.aeron.cluster.service.Cluster;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.LockSupport;

/** A right service with much memory, which a thread keeps until the service is terminated. */
public class Hungry extends Accounts {
    private static final int BYTES = 100 << 20;

    private final CountDownLatch end = new CountDownLatch(1);

    @Override
    public void onStart(final Cluster cluster, final Image image) {
        super.onStart(cluster, image);
        final byte[] held = new byte[BYTES];
        final Thread thread = new Thread(() -> {
            while (end.getCount() > 0) {
                LockSupport.park(held);
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public void onTerminate(final Cluster cluster) {
        end.countDown();
    }
}
