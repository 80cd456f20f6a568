package upheaval;

import io.aeron.cluster.service.ClusteredService;
import java.lang.reflect.InvocationTargetException;
import upheaval.services.Services;

/** The services of a member: those of Upheaval by their names, others by the names of their classes. */
final class MemberServices {
    private MemberServices() {
    }

    /** A new one. Throws {@link IllegalArgumentException} with one line for what is no service. */
    static ClusteredService make(final String name) {
        return Services.has(name) ? new HostedService(Services.make(name)) : ofClass(name);
    }

    private static ClusteredService ofClass(final String name) {
        try {
            return Class.forName(name).asSubclass(ClusteredService.class).getConstructor().newInstance();
        } catch (final ClassNotFoundException error) {
            throw new IllegalArgumentException(
                "unknown service '" + name + "': use " + Services.names() + ", or a class on the class path");
        } catch (final ClassCastException error) {
            throw refused(name, "expected an implementation of ClusteredService");
        } catch (final InvocationTargetException error) {
            throw refused(name, "its constructor threw " + Errors.text(error.getCause()));
        } catch (final ReflectiveOperationException error) {
            throw refused(name, "expected a public class and constructor without parameters");
        } catch (final LinkageError error) {
            throw refused(name, "its class cannot be loaded: " + Errors.text(error));
        }
    }

    private static IllegalArgumentException refused(final String name, final String why) {
        return new IllegalArgumentException("service '" + name + "': " + why);
    }
}
