#!/usr/bin/env bash
# The command on another kernel: boots Debian's own in an emulated machine, with
# control groups of version 2 and an older Landlock, and runs there, as root and
# as an ordinary user, the tests of control groups, doctor, limits and selftest.
# It takes some minutes, root, and apt for what is missing; integration/docker.sh
# has to have made the test image.
set -euo pipefail
cd "$(dirname "$0")/.."

need() { # need PROGRAM PACKAGE
	command -v "$1" >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2" >/dev/null
}
need qemu-system-x86_64 qemu-system-x86
need cpio cpio
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
kernel=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ {print $2; exit}')
(cd "$dir" && apt-get download -qq "$kernel" 2>/dev/null && dpkg -x linux-image-*.deb kernel)

# The system: the test image, the command, and what is run.
image=$(ls -t "${TMPDIR:-/tmp}"/hermes-exec-test-image-*.tar 2>/dev/null | head -1)
[ -n "$image" ] || { echo "vm.sh: there is no test image: run integration/docker.sh" >&2; exit 1; }
mkdir -p "$dir/root/t"
tar xf "$image" -C "$dir/root"
make -s build
cp bin/hermes-exec "$dir/root/t/"
CGO_ENABLED=0 go test -c -vet=off -o "$dir/root/t/cgroup.test" ./backends/local/cgroup

cat >"$dir/root/init" <<'END'
#!/bin/busybox sh
# pivot_root, which a session's guest needs, does not work on the first root.
/bin/busybox mkdir -p /new
/bin/busybox mount -t tmpfs -o size=1800m,mode=755 t /new
/bin/busybox cp -a /bin /etc /home /lib /lib64 /root /sbin /usr /var /t /new/
cd /new && /bin/busybox mkdir -p proc sys dev tmp run
exec /bin/busybox switch_root /new /t/boot
END
cat >"$dir/root/t/boot" <<'END'
#!/bin/busybox sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root HERMES_EXEC_BIN=/t/hermes-exec
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev
mkdir -p /dev/pts /dev/shm; mount -t devpts -o ptmxmode=666 d /dev/pts; mount -t tmpfs t /dev/shm; mount -t tmpfs t /tmp; chmod 1777 /tmp
busybox ip link set lo up
mount -t cgroup2 c /sys/fs/cgroup
cd /sys/fs/cgroup; mkdir all user; for p in $(cat cgroup.procs); do echo "$p" >all/cgroup.procs; done 2>/dev/null
echo "+memory +pids +cpu" >cgroup.subtree_control
uname -sr
cd /tmp; echo "# control groups"; /t/cgroup.test -test.v -test.timeout 5m 2>&1 | grep -E '^(---|FAIL|PASS|panic)|_test.go'
cd /sys/fs/cgroup/user; echo "+memory +pids +cpu" >cgroup.subtree_control; mkdir leaf; echo $$ >leaf/cgroup.procs; chown -R 1000:1000 . # delegated
mkdir -p /home/u/w /home/u/.hermes /tmp/u; printf 'code_execution: {memory: 64M, pids: 32}\n' >/home/u/.hermes/config.yaml; chown -R 1000:1000 /home/u /tmp/u
as() { python3 -c 'import os, sys; os.setgroups([]); os.setgid(1000); os.setuid(1000); os.chdir("/home/u/w"); os.environ.update(HOME="/home/u", TMPDIR="/tmp/u"); os.execv(sys.argv[1], sys.argv[1:])' /t/hermes-exec "$@"; }
echo "# doctor"; as doctor
echo "# limits"; as run --json -c 'bytearray(200 << 20)'; as run --json -c 'import os, time
for i in range(100): os.fork() or time.sleep(9)'
rm /home/u/.hermes/config.yaml
for policy in workspace sealed; do echo "# selftest, $policy"; as --policy "$policy" selftest | grep -E '✗|held ·'; done
echo "# end"; busybox poweroff -f
END
chmod +x "$dir/root/init" "$dir/root/t/boot"
(cd "$dir/root" && find . | cpio -o -H newc --quiet | gzip -1) >"$dir/initrd"
timeout 900 qemu-system-x86_64 -cpu max -smp 2 -m 4096 -nographic -no-reboot -kernel "$dir"/kernel/boot/vmlinuz-* -initrd "$dir/initrd" \
	-append "console=ttyS0 panic=-1 rdinit=/init quiet" </dev/null >"$dir/out" 2>&1 || true
tr -d '\r' <"$dir/out" | grep -a -v 'Memory cgroup out of memory' | sed -n '/# control groups/,$p'
grep -a -q '^# end' "$dir/out" || { echo "FAIL: it did not come to its end" >&2; exit 1; }
! grep -a -q '^--- FAIL\|^FAIL\|^panic' "$dir/out"
