import io.aeron.archive.Archive;
import io.aeron.archive.ArchiveThreadingMode;
import io.aeron.cluster.ClusteredMediaDriver;
import io.aeron.cluster.ConsensusModule;
import io.aeron.cluster.service.ClusteredServiceContainer;
import io.aeron.driver.DefaultNameResolver;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import java.io.IOException;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.agrona.concurrent.SleepingMillisIdleStrategy;

/**
 * Starts one member as in production, in a cluster where one lookup of a client's name takes 15 s, as with a slow DNS
 * server. It is the first that a member repeats: the consensus module of each member looks up the name of each client,
 * and then the service of the leader does.
 */
public final class SlowName {
    private static final long LOOKUP_S = 15;
    private static final int PORTS_A_MEMBER = 6;
    private static final Pattern PORT = Pattern.compile(":(\\d+)");

    private final int firstPort;
    private final int lastPort;
    private final Set<String> known = new HashSet<>();

    private SlowName() {
        final int[] ports = PORT.matcher(System.getProperty("aeron.cluster.members"))
            .results().mapToInt(port -> Integer.parseInt(port.group(1))).sorted().toArray();
        firstPort = ports[0];
        lastPort = ports[ports.length - 1] + PORTS_A_MEMBER;
    }

    /** Runs until SIGTERM, or until the cluster ends. */
    public static void main(final String[] arguments) throws Exception {
        final CountDownLatch end = new CountDownLatch(1);
        final Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            end.countDown();
            join(main);
        }));
        final MediaDriver.Context driver = new MediaDriver.Context()
            .threadingMode(ThreadingMode.SHARED)
            .sharedIdleStrategy(new SleepingMillisIdleStrategy(1))
            .terminationHook(end::countDown);
        new SlowName().install(driver);
        final Archive.Context archive = new Archive.Context().threadingMode(ArchiveThreadingMode.SHARED);
        final ConsensusModule.Context module = new ConsensusModule.Context().terminationHook(end::countDown);
        final ClusteredServiceContainer.Context service =
            new ClusteredServiceContainer.Context().terminationHook(end::countDown);
        try (
            ClusteredMediaDriver components = ClusteredMediaDriver.launch(driver, archive, module);
            ClusteredServiceContainer container = ClusteredServiceContainer.launch(service)) {
            end.await();
        }
    }

    private static void join(final Thread thread) {
        try {
            thread.join();
        } catch (final InterruptedException hurried) {
            Thread.currentThread().interrupt();
        }
    }

    /** The resolver's type depends on the version of Aeron. */
    private void install(final MediaDriver.Context driver) throws ReflectiveOperationException {
        final Method setter = Arrays.stream(MediaDriver.Context.class.getMethods())
            .filter(method -> method.getName().equals("nameResolver") && method.getParameterCount() == 1)
            .findFirst().orElseThrow();
        final Class<?> type = setter.getParameterTypes()[0];
        setter.invoke(driver, Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[]{type}, this::call));
    }

    private Object call(final Object proxy, final Method method, final Object[] values) throws Throwable {
        switch (method.getName()) {
            case "lookup":
                return lookup((String)values[0], (String)values[1], (Boolean)values[2]);
            case "resolve":
                return resolve((String)values[0], (String)values[1], (Boolean)values[2]);
            case "roleName":
                return "slow-name";
            default:
                if (method.isDefault()) {
                    return InvocationHandler.invokeDefault(proxy, method, values);
                }
                return method.getReturnType() == int.class ? 0 : null;
        }
    }

    private static InetAddress resolve(final String name, final String parameter, final boolean isAgain) {
        return DefaultNameResolver.INSTANCE.resolve(name, parameter, isAgain);
    }

    private synchronized String lookup(final String name, final String parameter, final boolean isAgain)
        throws IOException, InterruptedException {
        if (!isAgain && parameter.equals("endpoint") && isOfClient(name) && !known.add(name) && isFirst()) {
            TimeUnit.SECONDS.sleep(LOOKUP_S);
        }
        return name;
    }

    private boolean isOfClient(final String name) {
        final int port = Integer.parseInt(name.substring(name.lastIndexOf(':') + 1));
        return port > 0 && (port < firstPort || port > lastPort);
    }

    /** Whether no member has repeated a lookup before. The first one makes a file in the run folder. */
    private static boolean isFirst() throws IOException {
        try {
            Files.createFile(Path.of(System.getProperty("aeron.cluster.dir")).resolve("../../slow-name").normalize());
            return true;
        } catch (final FileAlreadyExistsException other) {
            return false;
        }
    }
}
