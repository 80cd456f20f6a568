package upheaval.replay;

import io.aeron.cluster.service.ClusteredService;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import upheaval.ClassFile;

/** The classes of a service, loaded anew, with {@link ShiftedTime} in the place of Java's clocks. */
final class ServiceClasses extends URLClassLoader {
    ServiceClasses(final List<String> classPath) {
        super(urls(classPath), ServiceClasses.class.getClassLoader());
    }

    /** Throws {@link IllegalArgumentException} with one line for a class that is no service. */
    ClusteredService make(final String name) {
        try {
            return Class.forName(name, true, this).asSubclass(ClusteredService.class).getConstructor().newInstance();
        } catch (final InvocationTargetException error) {
            throw new IllegalArgumentException("the constructor of " + name + " threw " + error.getCause());
        } catch (final ReflectiveOperationException | ClassCastException | LinkageError error) {
            throw new IllegalArgumentException("the class " + name + " cannot be loaded: " + error);
        }
    }

    @Override
    protected Class<?> findClass(final String name) throws ClassNotFoundException {
        try (InputStream in = getResourceAsStream(name.replace('.', '/') + ".class")) {
            if (in == null) {
                throw new ClassNotFoundException(name);
            }
            final byte[] content = ClassFile.replaced(in.readAllBytes(), ShiftedTime.class, ShiftedTime.METHODS);
            return defineClass(name, content, 0, content.length);
        } catch (final IOException error) {
            throw new ClassNotFoundException(name, error);
        }
    }

    private static URL[] urls(final List<String> classPath) {
        final List<URL> urls = new ArrayList<>();
        for (final String entry : classPath) {
            final File file = new File(entry);
            if (!file.getName().equals("*")) {
                urls.add(url(file));
                continue;
            }
            final File[] jars = file.getParentFile().listFiles((folder, name) -> name.toLowerCase().endsWith(".jar"));
            Arrays.stream(jars == null ? new File[0] : jars).sorted().map(ServiceClasses::url).forEach(urls::add);
        }
        return urls.toArray(URL[]::new);
    }

    private static URL url(final File file) {
        try {
            return file.toURI().toURL();
        } catch (final MalformedURLException error) {
            throw new IllegalArgumentException(error.getMessage());
        }
    }
}
