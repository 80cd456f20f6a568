package upheaval;

import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;

/** Reads a file of properties. Says in one line what is missing, unknown or no number. */
class Settings {
    private final Properties properties = new Properties();
    private final Set<String> unread;

    /** Throws {@link IllegalArgumentException} here and below for a file that makes no sense. */
    Settings(final Path file) throws IOException {
        try (Reader reader = Files.newBufferedReader(file)) {
            properties.load(reader);
        }
        unread = new TreeSet<>(properties.stringPropertyNames());
    }

    /** To be called when all has been read: what has not been is unknown. */
    final void requireAllRead() {
        if (!unread.isEmpty()) {
            throw new IllegalArgumentException("unknown property '" + unread.iterator().next() + "'");
        }
    }

    final Set<String> propertyNames() {
        return properties.stringPropertyNames();
    }

    final String text(final String name) {
        final String value = properties.getProperty(name);
        if (value == null) {
            throw new IllegalArgumentException("missing property '" + name + "'");
        }
        unread.remove(name);
        return value;
    }

    final int number(final String name) {
        final String value = text(name);
        try {
            return Integer.parseInt(value);
        } catch (final NumberFormatException notNumber) {
            throw new IllegalArgumentException("property '" + name + "': expected a number, got '" + value + "'");
        }
    }

    final long duration(final String name) {
        return TimeUnit.MILLISECONDS.toNanos(number(name));
    }
}
