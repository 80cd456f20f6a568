#!/usr/bin/env bash
# Installs on a bare Debian what the docker, spark, aeron and browser suites need and what is missing, and starts an
# engine where none answers. Everything comes from the machine's own package sources. Needs root.
#
# The engine that it starts goes on running; its log is /var/log/upheaval-dockerd.log.
set -euo pipefail

plugins=${DOCKER_CONFIG:-$HOME/.docker}/cli-plugins
engine_log=/var/log/upheaval-dockerd.log

say() { printf 'install_ci: %s\n' "$*" >&2; }
fail() {
    say "$*"
    exit 2
}

has() { command -v "$1" >/dev/null 2>&1; }

# Java 17 or newer, which Spark needs.
has_java() {
    local version
    has java && has javac || return 1
    version=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p')
    [[ ${version:-0} -ge 17 ]]
}

# Toxiproxy 2.12.0 says in its go.mod which Go it wants; an older one could not fetch a newer one without a network.
has_go() {
    local version
    has go || return 1
    version=$(go version | sed -n 's/.*go1\.\([0-9]*\).*/\1/p')
    [[ ${version:-0} -ge 23 ]]
}

# Packages that are missing, as far as their programs show.
missing_packages() {
    has docker || echo docker.io
    has dockerd || echo docker.io
    has debootstrap || echo debootstrap
    has iptables || echo iptables
    has chromium || echo chromium
    has strace || echo strace
    has faketime || echo faketime
    has openssl || echo openssl
    has_java || echo default-jdk-headless
    has mvn || echo maven
}

install_packages() {
    local -a packages
    mapfile -t packages < <(missing_packages | sort -u)
    ((${#packages[@]})) || return 0
    say "installing ${packages[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
}

# The first address of a Debian archive in the machine's own sources, old or new format; nothing where there is none.
mirror() {
    local file
    local -a addresses
    for file in /etc/apt/sources.list.d/*.sources /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [[ -r $file ]] || continue
        mapfile -t addresses < <(sed -n -E \
            -e 's/^URIs:[[:space:]]*([^[:space:]]+\/debian\/?)([[:space:]].*)?$/\1/p' \
            -e 's/^deb[[:space:]]+(\[[^]]*\][[:space:]]+)?([^[:space:]]+\/debian\/?)[[:space:]].*/\2/p' "$file")
        ((${#addresses[@]})) || continue
        echo "${addresses[0]}"
        return 0
    done
}

# One package of a newer Debian, unpacked into a folder: with a list folder of its own, so that nothing else of that
# Debian is ever installed here.
unpack_from() {
    local suite=$1 package=$2 target=$3 address
    address=$(mirror)
    [[ -n $address ]] || fail "no Debian archive in this machine's package sources"
    local work=$target/apt
    mkdir -p "$work/lists/partial" "$work/archives"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $address $suite main" >"$work/sources.list"
    local -a options=(
        -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=-
        -o "Dir::State::lists=$work/lists" -o "Dir::Cache::pkgcache=" -o "Dir::Cache::srcpkgcache="
        -o APT::Sandbox::User=root -o Acquire::Languages=none
    )
    apt-get "${options[@]}" -qq update
    (cd "$work/archives" && apt-get "${options[@]}" -qq download "$package")
    dpkg-deb -x "$work"/archives/"$package"_*.deb "$target"
}

# Compose v2 is no package of Debian 12; that of Debian 13 runs on it.
install_compose() {
    docker compose version >/dev/null 2>&1 && return 0
    say "installing the compose plugin into $plugins"
    local work
    work=$(mktemp -d)
    unpack_from trixie docker-compose "$work"
    mkdir -p "$plugins"
    install -m 755 "$work/usr/libexec/docker/cli-plugins/docker-compose" "$plugins/docker-compose"
    rm -rf "$work"
    docker compose version >/dev/null
}

# Debian 12 has Go 1.19. The one of Debian 13 is unpacked where `go` finds itself.
install_go() {
    has_go && return 0
    say "installing go into /usr/local/lib/upheaval-go"
    local work suffix=1.24
    work=$(mktemp -d)
    unpack_from trixie "golang-$suffix-go" "$work"
    unpack_from trixie "golang-$suffix-src" "$work"
    rm -rf /usr/local/lib/upheaval-go
    mkdir -p /usr/local/lib/upheaval-go
    cp -a "$work/usr" /usr/local/lib/upheaval-go/
    rm -rf "$work"
    ln -sf "/usr/local/lib/upheaval-go/usr/lib/go-$suffix/bin/go" /usr/local/bin/go
    has_go || fail "the installed go does not run"
}

# Aeron's own programs, for the suite that has them check our files.
fetch_aeron() {
    local python
    python=$(command -v python3.11 || command -v python3) || fail "python3 is missing"
    "$python" "$(dirname "$0")/aeron_jar.py" --all >/dev/null
}

engine_answers() { docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

start_engine() {
    local reason
    engine_answers && return 0
    say "starting dockerd, which logs to $engine_log"
    setsid nohup dockerd >"$engine_log" 2>&1 </dev/null &
    local engine=$!
    for _ in $(seq 120); do
        engine_answers && return 0
        kill -0 "$engine" 2>/dev/null || break
        sleep 0.5
    done
    reason=$(grep -E 'level=(fatal|error)|failed' "$engine_log" | tail -n 1 || true)
    fail "dockerd does not answer: ${reason:-see $engine_log}"
}

main() {
    [[ $(id -u) == 0 ]] || fail "this needs root"
    has apt-get || fail "this is for Debian: apt-get is missing"
    install_packages
    fetch_aeron &
    local jars=$!
    install_compose
    install_go
    start_engine
    wait "$jars"
    say "ready: engine $(docker version --format '{{.Server.Version}}'), $(docker compose version --short) compose"
}

main "$@"
