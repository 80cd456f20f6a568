package upheaval;

import io.aeron.Aeron;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import java.io.IOException;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.agrona.concurrent.IdleStrategy;

/**
 * Clients of a cluster for programs without Java: {@code upheaval.Bridge AERON_DIR EGRESS [ENDPOINT=DIALLED...]}. Members
 * answer to that host, or host and port, which is this machine as they know it, and an endpoint of theirs is dialled where
 * it says so. Prints {@code BRIDGE port} when it listens on that port of the loopback address, which is any free one or what
 * the property {@code upheaval.bridge.port} says, and ends when its standard input ends.
 * One connection is one session; {@link Frames} are the form of what is said on it, {@link BridgeSession} its meaning. A program
 * with clients of its own calls {@link #run} with what makes them, and its own arguments.
 */
public final class Bridge {
    private final ServerSocketChannel server;
    private final Aeron aeron;
    private final String egress;
    private final Client.Factory clients;
    private final List<BridgeSession> sessions = new ArrayList<>();
    private int sessionsSoFar;
    private volatile boolean isEnding;

    private Bridge(
        final ServerSocketChannel server, final Aeron aeron, final String egress, final Client.Factory clients) {
        this.server = server;
        this.aeron = aeron;
        this.egress = egress;
        this.clients = clients;
    }

    /** A bridge of usual clients. */
    public static void main(final String[] arguments) throws Exception {
        run(arguments, ClusterClient::new);
    }

    /**
     * Runs until standard input ends, or until a signal; then the process ends. What clients print to {@code System.out} from
     * here on goes to stderr: only the first line of the bridge's output is read.
     */
    public static void run(final String[] arguments, final Client.Factory clients) throws Exception {
        final PrintStream out = System.out;
        System.setOut(System.err);
        if (arguments.length < 2) {
            System.err.println("usage: upheaval.Bridge AERON_DIR EGRESS [ENDPOINT=DIALLED...]");
            System.exit(Status.USAGE.code);
        }
        final MediaDriver.Context driver = new MediaDriver.Context()
            .aeronDirectoryName(arguments[0])
            .threadingMode(ThreadingMode.SHARED)
            .sharedIdleStrategy(StallWatch.idleStrategy())
            .dirDeleteOnStart(true)
            .dirDeleteOnShutdown(true)
            .warnIfDirectoryExists(false);
        new Names(names(arguments)).install(driver);
        try (MediaDriver running = MediaDriver.launch(driver);
            Aeron aeron = Aeron.connect(new Aeron.Context().aeronDirectoryName(running.aeronDirectoryName()));
            ServerSocketChannel server = listen()) {
            final Bridge bridge = new Bridge(server, aeron, arguments[1], clients);
            Signals.take(name -> bridge.isEnding = true);
            bridge.endWithInput();
            out.println("BRIDGE " + ((InetSocketAddress)server.getLocalAddress()).getPort());
            out.flush();
            bridge.serve();
        }
        System.exit(Status.OK.code);
    }

    private static Map<String, String> names(final String[] arguments) {
        final Map<String, String> names = new HashMap<>();
        for (int index = 2; index < arguments.length; index++) {
            final String[] parts = arguments[index].split("=", 2);
            if (parts.length < 2) {
                System.err.println("bridge: expected ENDPOINT=DIALLED, got '" + arguments[index] + "'");
                System.exit(Status.USAGE.code);
            }
            names.put(parts[0], parts[1]);
        }
        return names;
    }

    private static ServerSocketChannel listen() throws IOException {
        final ServerSocketChannel server = ServerSocketChannel.open();
        server.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), Integer.getInteger("upheaval.bridge.port", 0)));
        server.configureBlocking(false);
        return server;
    }

    private void serve() throws IOException {
        final IdleStrategy idleStrategy = StallWatch.idleStrategy();
        while (!isEnding) {
            int work = accept();
            for (final BridgeSession session : sessions) {
                work += session.doWork();
            }
            sessions.removeIf(BridgeSession::isClosed);
            idleStrategy.idle(work);
        }
        sessions.forEach(BridgeSession::close);
    }

    private int accept() throws IOException {
        final SocketChannel socket = server.accept();
        if (socket == null) {
            return 0;
        }
        socket.configureBlocking(false);
        socket.setOption(StandardSocketOptions.TCP_NODELAY, true);
        sessions.add(new BridgeSession(aeron, egress, sessionsSoFar++, socket, clients));
        return 1;
    }

    private void endWithInput() {
        final Thread reader = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    // What it says has no meaning.
                }
            } catch (final IOException gone) {
                // As good as its end.
            }
            isEnding = true;
        }, "input");
        reader.setDaemon(true);
        reader.start();
    }
}
