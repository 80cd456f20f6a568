package upheaval.replay;

import io.aeron.Aeron;
import io.aeron.ExclusivePublication;
import io.aeron.FragmentAssembler;
import io.aeron.Image;
import io.aeron.Subscription;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import org.agrona.CloseHelper;
import org.agrona.concurrent.BackoffIdleStrategy;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Real publications and images for snapshots, over a media driver of this process: Aeron's classes for them are final,
 * and a service may use all that they can do.
 */
final class SnapshotStreams implements AutoCloseable {
    private static final int TERM_LENGTH = 1 << 20;
    private static final int FRAME_ALIGNMENT = 32;
    private static final String CHANNEL = "aeron:ipc?term-length=" + TERM_LENGTH;
    /** The first frame is padding, so the first poll gives no message: as in a cluster, where it comes too early. */
    private static final String LATE_CHANNEL =
        CHANNEL + "|init-term-id=0|term-id=0|term-offset=" + (TERM_LENGTH - FRAME_ALIGNMENT);
    private static final int FRAGMENTS = 100;
    private static final long PARK_NS = 200_000;

    private final MediaDriver driver;
    private final Aeron aeron;
    private int streamId = 1000;

    SnapshotStreams() {
        driver = MediaDriver.launchEmbedded(new MediaDriver.Context()
            .threadingMode(ThreadingMode.SHARED)
            .sharedIdleStrategy(idleStrategy())
            .dirDeleteOnShutdown(true)
            .publicationTermBufferLength(1 << 16)
            .ipcTermBufferLength(1 << 16));
        aeron = Aeron.connect(new Aeron.Context()
            .aeronDirectoryName(driver.aeronDirectoryName()).idleStrategy(idleStrategy()));
    }

    private static BackoffIdleStrategy idleStrategy() {
        return new BackoffIdleStrategy(10, 5, 1_000, PARK_NS);
    }

    Aeron aeron() {
        return aeron;
    }

    /** The messages that a service writes. */
    List<byte[]> written(final Consumer<ExclusivePublication> writer) {
        final List<byte[]> messages = new ArrayList<>();
        streamId++;
        try (Subscription subscription = aeron.addSubscription(CHANNEL, streamId);
            ExclusivePublication publication = aeron.addExclusivePublication(CHANNEL, streamId)) {
            final Image image = image(subscription);
            final AtomicLong end = new AtomicLong(Long.MAX_VALUE);
            final Thread reader = new Thread(() -> read(image, end, messages), "snapshot-reader");
            reader.start();
            try {
                writer.accept(publication);
            } finally {
                end.set(publication.position());
                join(reader);
            }
        }
        return messages;
    }

    /** Gives a service an image with those messages; it ends after them. */
    void read(final List<byte[]> messages, final Consumer<Image> reader) {
        streamId++;
        try (Subscription subscription = aeron.addSubscription(CHANNEL, streamId)) {
            final ExclusivePublication publication = aeron.addExclusivePublication(LATE_CHANNEL, streamId);
            final Image image = image(subscription);
            final Thread writer = new Thread(() -> write(publication, messages), "snapshot-writer");
            writer.start();
            try {
                reader.accept(image);
            } finally {
                writer.interrupt();
                join(writer);
            }
        }
    }

    private static Image image(final Subscription subscription) {
        final BackoffIdleStrategy idle = idleStrategy();
        while (subscription.imageCount() == 0) {
            idle.idle();
        }
        return subscription.imageAtIndex(0);
    }

    private static void read(final Image image, final AtomicLong end, final List<byte[]> messages) {
        final FragmentAssembler assembler = new FragmentAssembler(
            (buffer, offset, length, header) -> messages.add(Effects.bytes(buffer, offset, length)));
        final BackoffIdleStrategy idle = idleStrategy();
        while (image.position() < end.get() && !image.isClosed()) {
            idle.idle(image.poll(assembler, FRAGMENTS));
        }
    }

    private static void write(final ExclusivePublication publication, final List<byte[]> messages) {
        final BackoffIdleStrategy idle = idleStrategy();
        for (final byte[] message : messages) {
            final UnsafeBuffer buffer = new UnsafeBuffer(message);
            while (publication.offer(buffer, 0, message.length) < 0 && !Thread.currentThread().isInterrupted()) {
                idle.idle();
            }
        }
        publication.close();
    }

    private static void join(final Thread thread) {
        try {
            thread.join();
        } catch (final InterruptedException hurried) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void close() {
        CloseHelper.quietCloseAll(aeron, driver);
    }
}
