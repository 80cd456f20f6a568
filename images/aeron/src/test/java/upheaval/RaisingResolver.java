package upheaval;

import io.aeron.driver.MediaDriver;
import io.aeron.driver.NameResolver;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.Map;
import org.agrona.concurrent.Agent;

/** A media driver with names of ours and a resolver of its own that throws. Prints a line for each call of it. */
public final class RaisingResolver {
    private RaisingResolver() {
    }

    public static void main(final String[] arguments) throws ReflectiveOperationException {
        final MediaDriver.Context driver = new MediaDriver.Context();
        final Method setter = Arrays.stream(MediaDriver.Context.class.getMethods())
            .filter(method -> method.getName().equals("nameResolver") && method.getParameterCount() == 1)
            .findFirst().orElseThrow();
        final Class<?> type = setter.getParameterTypes()[0];
        setter.invoke(driver, Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[]{type}, (proxy, method, values) -> {
            throw new UnsupportedOperationException(method.getName());
        }));
        new Names(Map.of()).install(driver);
        final NameResolver resolver = driver.nameResolver();
        print(() -> resolver.lookup("a:1", "endpoint", false));
        print(() -> resolver.resolve("a", "endpoint", false));
        print(((Agent)resolver)::roleName);
    }

    private static void print(final Runnable call) {
        try {
            call.run();
            System.out.println("nothing");
        } catch (final RuntimeException error) {
            System.out.println(error);
        }
    }
}
