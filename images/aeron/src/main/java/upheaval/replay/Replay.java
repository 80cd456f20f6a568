package upheaval.replay;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * Plays the log of a member to copies of a service, outside of any cluster: {@code upheaval.replay.Replay CLASS [ENTRY...]}
 * with the class path of the service.
 *
 * <p>What to do is on stdin, numbers big-endian:
 *
 * <pre>
 * log:    int32 count, and for each entry: int64 position of its end, int32 length, its bytes
 * cuts:   int32 count, and for each: int32 number of entries after which the first copy takes a snapshot
 * copies: int32 count, and for each: see {@link Plan}
 * </pre>
 *
 * <p>Effects come as JSON on stdout, a line for each entry that had any, see {@link Effects}, and a line for each snapshot
 * of a copy that the log asks for, and for the one at its end. A line with {@code "ended"} is the last of each copy. What
 * the service prints goes to stderr. Each copy has classes of its own, so copies share no static field.
 */
public final class Replay {
    private static final int USAGE = 2;

    private Replay() {
    }

    /** Ends with status 2 and one line for a class that is no service, and where copies need more memory than there is. */
    public static void main(final String[] arguments) throws Exception {
        final PrintStream out = new PrintStream(new BufferedOutputStream(System.out, 1 << 16), false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        if (arguments.length < 1) {
            refuse("usage: upheaval.replay.Replay CLASS [ENTRY...]");
        }
        final List<String> classPath = Arrays.asList(arguments).subList(1, arguments.length);
        final DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
        final List<Entry> log = log(in);
        final Set<Integer> cuts = numbers(in);
        final List<Plan> plans = plans(in);
        try (SnapshotStreams streams = new SnapshotStreams()) {
            final List<Beginning> begun = new ArrayList<>();
            for (int number = 0; number < plans.size(); number++) {
                final Plan plan = plans.get(number);
                final Copy copy = new Copy(arguments[0], classPath, streams, new Report(out, number), plan.member());
                copy.play(log, plan, begun, number == 0 ? cuts : Set.of());
                out.flush();
            }
        } catch (final IllegalArgumentException error) {
            refuse("replay: " + error.getMessage());
        } catch (final OutOfMemoryError error) {
            refuse("replay: its copies need more memory together: " + error.getMessage());
        }
        out.flush();
        // Threads of the service are not waited for.
        System.exit(0);
    }

    private static List<Entry> log(final DataInputStream in) throws IOException {
        final int count = in.readInt();
        final List<Entry> log = new ArrayList<>(count);
        for (int index = 0; index < count; index++) {
            final long position = in.readLong();
            log.add(new Entry(position, in.readNBytes(in.readInt())));
        }
        return log;
    }

    private static Set<Integer> numbers(final DataInputStream in) throws IOException {
        final int count = in.readInt();
        final Set<Integer> numbers = new HashSet<>();
        for (int index = 0; index < count; index++) {
            numbers.add(in.readInt());
        }
        return numbers;
    }

    private static List<Plan> plans(final DataInputStream in) throws IOException {
        final int count = in.readInt();
        final List<Plan> plans = new ArrayList<>(count);
        for (int index = 0; index < count; index++) {
            plans.add(Plan.read(in));
        }
        return plans;
    }

    private static void refuse(final String text) {
        System.err.println(text);
        System.exit(USAGE);
    }
}
