package upheaval.replay;

import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.ZonedDateTime;
import java.util.HashMap;
import java.util.Map;

/** The clocks that a service reads instead of Java's own, {@code upheaval.shift.seconds} later. */
public final class ShiftedTime {
    private static final Duration SHIFT = Duration.ofSeconds(Long.getLong("upheaval.shift.seconds", 0));
    private static final Clock CLOCK = Clock.offset(Clock.systemDefaultZone(), SHIFT);
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
        return CLOCK.millis();
    }

    public static long nanoTime() {
        return System.nanoTime() + SHIFT.toNanos();
    }

    public static Clock systemUtc() {
        return Clock.offset(Clock.systemUTC(), SHIFT);
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
}
