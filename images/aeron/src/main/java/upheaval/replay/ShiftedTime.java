package upheaval.replay;

import java.time.Clock;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The clocks that a service reads instead of Java's own. They begin in 2001, {@code upheaval.shift.seconds} later, and
 * advance by a millisecond at each reading, so that two replays under equal conditions read the same.
 */
public final class ShiftedTime {
    private static final long BEGIN_S = 1_000_000_000;
    private static final AtomicLong MILLIS =
        new AtomicLong(TimeUnit.SECONDS.toMillis(BEGIN_S + Long.getLong("upheaval.shift.seconds", 0)));
    private static final Clock CLOCK = new Ticking(ZoneId.systemDefault());
    /** Static methods without parameters, as class files name them, and the methods here that take their place. */
    static final Map<String, String> METHODS = methods();

    private ShiftedTime() {
    }

    private static Map<String, String> methods() {
        final Map<String, String> methods = new HashMap<>();
        methods.put("java/lang/System.currentTimeMillis:()J", "currentTimeMillis");
        methods.put("java/lang/System.nanoTime:()J", "nanoTime");
        methods.put("java/time/Clock.systemUTC:()Ljava/time/Clock;", "systemUtc");
        methods.put("java/time/Clock.systemDefaultZone:()Ljava/time/Clock;", "systemDefaultZone");
        for (final Class<?> kind : new Class<?>[]{
            Instant.class, LocalDate.class, LocalTime.class, LocalDateTime.class, OffsetDateTime.class, ZonedDateTime.class
        }) {
            final String name = kind.getName().replace('.', '/');
            methods.put(name + ".now:()L" + name + ";", "now" + kind.getSimpleName());
        }
        return methods;
    }

    public static long currentTimeMillis() {
        return MILLIS.incrementAndGet();
    }

    public static long nanoTime() {
        return TimeUnit.MILLISECONDS.toNanos(currentTimeMillis());
    }

    public static Clock systemUtc() {
        return CLOCK.withZone(ZoneOffset.UTC);
    }

    public static Clock systemDefaultZone() {
        return CLOCK;
    }

    public static Instant nowInstant() {
        return CLOCK.instant();
    }

    public static LocalDate nowLocalDate() {
        return LocalDate.now(CLOCK);
    }

    public static LocalTime nowLocalTime() {
        return LocalTime.now(CLOCK);
    }

    public static LocalDateTime nowLocalDateTime() {
        return LocalDateTime.now(CLOCK);
    }

    public static OffsetDateTime nowOffsetDateTime() {
        return OffsetDateTime.now(CLOCK);
    }

    public static ZonedDateTime nowZonedDateTime() {
        return ZonedDateTime.now(CLOCK);
    }

    private static final class Ticking extends Clock {
        private final ZoneId zone;

        private Ticking(final ZoneId zone) {
            this.zone = zone;
        }

        @Override
        public ZoneId getZone() {
            return zone;
        }

        @Override
        public Clock withZone(final ZoneId other) {
            return new Ticking(other);
        }

        @Override
        public Instant instant() {
            return Instant.ofEpochMilli(currentTimeMillis());
        }
    }
}
