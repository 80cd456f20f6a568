import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.agrona.concurrent.IdleStrategy;
import org.agrona.concurrent.SleepingMillisIdleStrategy;

/** Leaves a file with the name of each thread that idles by it, in the folder of the property {@code named.idle}. */
public final class NamedIdle implements IdleStrategy {
    private final IdleStrategy idle = new SleepingMillisIdleStrategy(1);
    private boolean isNamed;

    @Override
    public void idle(final int workCount) {
        name();
        idle.idle(workCount);
    }

    @Override
    public void idle() {
        name();
        idle.idle();
    }

    @Override
    public void reset() {
        idle.reset();
    }

    private void name() {
        if (isNamed) {
            return;
        }
        isNamed = true;
        final String name = Thread.currentThread().getName().replaceAll("\\W", "-");
        try {
            Files.writeString(Path.of(System.getProperty("named.idle"), name), "");
        } catch (final IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
