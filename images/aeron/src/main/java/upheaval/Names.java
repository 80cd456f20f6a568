package upheaval;

import io.aeron.driver.DefaultNameResolver;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.NameResolver;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.agrona.LangUtil;

/**
 * What this member dials for an endpoint of another: the address of a proxy where it is given one, the endpoint itself
 * where not.
 */
final class Names implements NameResolver {
    private static final Set<String> OURS = Set.of("resolve", "lookup");

    private final Map<String, String> dialled;
    /** That of the driver, or Aeron's default. */
    private NameResolver others = DefaultNameResolver.INSTANCE;

    Names(final Map<String, String> dialled) {
        this.dialled = Map.copyOf(dialled);
    }

    @Override
    public InetAddress resolve(final String name, final String uriParamName, final boolean isReResolution) {
        return others.resolve(name, uriParamName, isReResolution);
    }

    @Override
    public String lookup(final String name, final String uriParamName, final boolean isReLookup) {
        final String proxy = dialled.get(name);
        return proxy == null ? others.lookup(name, uriParamName, isReLookup) : proxy;
    }

    /**
     * Let a driver dial by these names, and by its own resolver for all others. From 1.50 on it wants a resolver that is
     * an agent, too; before, there is no such type: so what it wants is found out while it runs.
     */
    void install(final MediaDriver.Context driver) {
        others = Objects.requireNonNullElse((NameResolver)resolverOf(driver), others);
        for (final Method method : MediaDriver.Context.class.getMethods()) {
            if (method.getName().equals("nameResolver") && method.getParameterCount() == 1) {
                final Class<?> wanted = method.getParameterTypes()[0];
                invoke(method, driver, others == DefaultNameResolver.INSTANCE && wanted.isInstance(this) ? this : as(wanted));
                return;
            }
        }
        throw new IllegalStateException("this media driver takes no name resolver");
    }

    private static Object resolverOf(final MediaDriver.Context driver) {
        try {
            return invoke(MediaDriver.Context.class.getMethod("nameResolver"), driver);
        } catch (final NoSuchMethodException error) {
            throw new IllegalStateException(error);
        }
    }

    /** This resolver, with the rest of the interface as the other resolver or the interface itself has it. */
    private Object as(final Class<?> wanted) {
        final InvocationHandler handler = (proxy, method, arguments) -> {
            if (OURS.contains(method.getName()) || method.getDeclaringClass() == Object.class) {
                return invoke(method, this, arguments);
            }
            if (method.getDeclaringClass().isInstance(others)) {
                return invoke(method, others, arguments);
            }
            return method.isDefault() ? InvocationHandler.invokeDefault(proxy, method, arguments) : null;
        };
        return Proxy.newProxyInstance(wanted.getClassLoader(), new Class<?>[] {wanted}, handler);
    }

    /** What the method throws comes out as it is: a resolver is the user's, and so are its exceptions. */
    private static Object invoke(final Method method, final Object target, final Object... arguments) {
        try {
            return method.invoke(target, arguments);
        } catch (final InvocationTargetException error) {
            LangUtil.rethrowUnchecked(error.getCause());
            throw new IllegalStateException(error);
        } catch (final IllegalAccessException error) {
            throw new IllegalStateException(error);
        }
    }
}
