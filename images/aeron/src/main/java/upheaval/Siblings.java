package upheaval;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.TimeUnit;

/**
 * Which components of a member run when each is a process of its own. A process holds the lock of a file while it runs;
 * the kernel frees it with the process.
 */
final class Siblings {
    private static final long POLL_MS = 50;
    private static final long WAIT_NS = TimeUnit.SECONDS.toNanos(2);
    /** More than passes between the starts of two components, one of which waits for its mark files. */
    private static final long START_NS = TimeUnit.SECONDS.toNanos(60);

    private final Path folder;
    private final Component own;
    /** Held by this object: it is closed with the process. */
    private final FileChannel lock;

    /** From now on that component runs. */
    Siblings(final Path folder, final Component own) throws IOException {
        this.folder = folder;
        this.own = own;
        lock = own == Component.ALL ? null : open(own);
        if (lock != null) {
            lock.lock();
        }
    }

    /** Let the archive, without which there is nothing for it to do, end with the consensus module, or without one. */
    void endWithModule(final Ending ending) {
        if (own != Component.ARCHIVE) {
            return;
        }
        final Thread watch = new Thread(() -> {
            final long deadline = System.nanoTime() + START_NS;
            while (!isRunning(Component.CONSENSUS) && System.nanoTime() < deadline) {
                sleep();
            }
            while (isRunning(Component.CONSENSUS)) {
                sleep();
            }
            ending.order("consensus ended");
        });
        watch.setDaemon(true);
        watch.start();
    }

    /** Wait for the end of the consensus module, when that is another process: it shall find the others in order. */
    void letModuleGo() {
        final long deadline = System.nanoTime() + WAIT_NS;
        while (!own.hasModule() && isRunning(Component.CONSENSUS) && System.nanoTime() < deadline) {
            sleep();
        }
    }

    /** Whether the media driver is there, without which nothing can be closed in order, nor soon. */
    boolean hasDriver() {
        return own.hasArchive() || isRunning(Component.ARCHIVE);
    }

    /** Whether another component of this member has ended; waits for one that is about to. */
    boolean isOneGone() {
        final long deadline = System.nanoTime() + WAIT_NS;
        while (own.siblings().stream().allMatch(this::isRunning)) {
            if (own == Component.ALL || System.nanoTime() >= deadline) {
                return false;
            }
            sleep();
        }
        return true;
    }

    /** Two threads of a process may not try one lock at a time. */
    private boolean isRunning(final Component component) {
        synchronized (Siblings.class) {
            try (FileChannel file = open(component)) {
                return file.tryLock(0, Long.MAX_VALUE, true) == null;
            } catch (final IOException error) {
                return false;
            }
        }
    }

    private FileChannel open(final Component component) throws IOException {
        Files.createDirectories(folder);
        return FileChannel.open(folder.resolve(component + ".lock"),
            StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE);
    }

    private static void sleep() {
        try {
            TimeUnit.MILLISECONDS.sleep(POLL_MS);
        } catch (final InterruptedException hurried) {
            Thread.currentThread().interrupt();
        }
    }
}
