package upheaval.replay;

import io.aeron.CommonContext;
import io.aeron.cluster.service.ClusteredService;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Begins clusters of one member with the files of a member, one after another, asks each the same, and has it take a
 * snapshot: {@code upheaval.replay.AskMembers CLASS [ENTRY...]} with the class path of the service.
 *
 * <p>What to do is on stdin, numbers big-endian:
 *
 * <pre>
 * int64 cluster time, uint8 its unit as in Aeron's ClusterTimeUnit, int32 member id
 * requests: int32 count, and for each: int32 length, its bytes
 * members:  int32 count, and for each: uint8 whether its snapshots count, int32 length of its folder's name, UTF-8
 * </pre>
 *
 * <p>Effects come as JSON on stdout, a line for each request that had any, see {@link Effects}: the session is 0. A line
 * with {@code "ended"} is the last of each member.
 */
public final class AskMembers {
    private static final int USAGE = 2;
    private static final long DRIVER_TIMEOUT_MS = 120_000;

    private AskMembers() {
    }

    /** Ends with status 2 and one line for a class that is no service. */
    public static void main(final String[] arguments) throws Exception {
        final PrintStream out = new PrintStream(new BufferedOutputStream(System.out, 1 << 16), false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        if (arguments.length < 1) {
            System.err.println("usage: upheaval.replay.AskMembers CLASS [ENTRY...]");
            System.exit(USAGE);
        }
        // As patient as a member's parts are with each other.
        System.setProperty(CommonContext.DRIVER_TIMEOUT_PROP_NAME, String.valueOf(DRIVER_TIMEOUT_MS));
        final DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
        final StillClock clock = new StillClock(in.readLong(), unit(in.readByte()));
        final int memberId = in.readInt();
        final List<byte[]> requests = new ArrayList<>();
        final int asked = in.readInt();
        for (int number = 0; number < asked; number++) {
            requests.add(in.readNBytes(in.readInt()));
        }
        final int members = in.readInt();
        for (int number = 0; number < members; number++) {
            final boolean usesSnapshots = in.readBoolean();
            final File folder = new File(new String(in.readNBytes(in.readInt()), StandardCharsets.UTF_8));
            ask(arguments, new OneMember.Files(folder, memberId, usesSnapshots), clock, requests, new Report(out, number));
            out.flush();
        }
        // Threads of the service are not waited for.
        System.exit(0);
    }

    private static void ask(
        final String[] arguments,
        final OneMember.Files files,
        final StillClock clock,
        final List<byte[]> requests,
        final Report report) {
        final Effects effects = new Effects();
        try {
            // The container starts the service in a thread that inherits this one's.
            final ServiceClasses classes = new ServiceClasses(Arrays.asList(arguments).subList(1, arguments.length));
            Thread.currentThread().setContextClassLoader(classes);
            final ClusteredService service = classes.make(arguments[0]);
            try (OneMember member = new OneMember(files, clock, service, effects)) {
                effects.take();
                for (int index = 0; index < requests.size(); index++) {
                    member.ask(requests.get(index));
                    report.effects(index, effects.take());
                }
                member.takeSnapshot();
            }
            report.ended("");
        } catch (final IllegalArgumentException error) {
            System.err.println("replay: " + error.getMessage());
            System.exit(USAGE);
        } catch (final Exception error) {
            report.ended(String.valueOf(error.getMessage()));
        }
    }

    private static TimeUnit unit(final byte number) {
        return switch (number) {
            case 0 -> TimeUnit.MILLISECONDS;
            case 1 -> TimeUnit.MICROSECONDS;
            default -> TimeUnit.NANOSECONDS;
        };
    }
}
