package upheaval;

import io.aeron.driver.MediaDriver;
import io.aeron.driver.NameResolver;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Map;

/**
 * A media driver with names of ours and a resolver of its own. Calls what a resolver has in this version, and prints what
 * the other one hears of.
 */
public final class OwnResolver {
    private OwnResolver() {
    }

    public static void main(final String[] arguments) throws ReflectiveOperationException {
        final MediaDriver.Context driver = new MediaDriver.Context();
        final Method setter = Arrays.stream(MediaDriver.Context.class.getMethods())
            .filter(method -> method.getName().equals("nameResolver") && method.getParameterCount() == 1)
            .findFirst().orElseThrow();
        final Class<?> type = setter.getParameterTypes()[0];
        setter.invoke(driver, Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[]{type}, (proxy, method, values) -> {
            System.out.println(method.getName());
            return method.getReturnType() == int.class ? 0 : null;
        }));
        new Names(Map.of()).install(driver);
        final NameResolver resolver = driver.nameResolver();
        final Method[] methods = type.getMethods();
        Arrays.sort(methods, Comparator.comparing(Method::getName));
        for (final Method method : methods) {
            final Object[] values = Arrays.stream(method.getParameterTypes()).map(OwnResolver::any).toArray();
            method.invoke(resolver, values);
        }
    }

    private static Object any(final Class<?> type) {
        if (type == String.class) {
            return "a:1";
        }
        return type == boolean.class ? Boolean.FALSE : type == long.class ? Long.valueOf(0) : null;
    }
}
