package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// period is over which processor time is bounded.
const period = 100 * time.Millisecond

// set sets one limit.
func (m *member) set(l sandbox.Limit, r sandbox.Resources) error {
	quota := strconv.FormatInt(int64(r.CPU*float64(period/time.Microsecond)), 10)
	micros := strconv.FormatInt(int64(period/time.Microsecond), 10)
	memory, pids := strconv.FormatInt(r.Memory, 10), strconv.Itoa(r.PIDs)
	switch {
	case l == sandbox.LimitPIDs:
		return m.write("pids.max", pids)

	case l == sandbox.LimitMemory && m.version == 1:
		err := m.write("memory.limit_in_bytes", memory)
		if err == nil { // both together, so that there is nothing in swap
			err = m.write("memory.memsw.limit_in_bytes", memory)
		}
		if errors.Is(err, fs.ErrNotExist) { // swap is not counted here
			err = m.write("memory.swappiness", "0")
		}
		return err
	case l == sandbox.LimitMemory:
		err := m.write("memory.max", memory)
		if err == nil {
			err = m.write("memory.swap.max", "0")
		}
		if errors.Is(err, fs.ErrNotExist) { // a kernel without swap
			err = nil
		}
		if err == nil {
			err = m.write("memory.oom.group", "1")
		}
		return err

	case l == sandbox.LimitCPU && m.version == 1:
		if err := m.write("cpu.cfs_period_us", micros); err != nil {
			return err
		}
		err := m.write("cpu.cfs_quota_us", quota)
		if errors.Is(err, syscall.EINVAL) && m.tighter(r.CPU) {
			err = nil
		}
		return err
	case l == sandbox.LimitCPU:
		return m.write("cpu.max", quota+" "+micros)
	}
	return fmt.Errorf("no control group bounds %s", l)
}

// tighter tells whether a group above has less processor time already, which
// version 1 answers with EINVAL to those below that ask for more.
func (m *member) tighter(cores float64) bool {
	for dir := filepath.Dir(m.dir); ; dir = filepath.Dir(dir) {
		quota, err1 := readNumber(dir, "cpu.cfs_quota_us")
		over, err2 := readNumber(dir, "cpu.cfs_period_us")
		if err1 != nil || err2 != nil || over <= 0 {
			return false
		}
		if quota > 0 && float64(quota)/float64(over) < cores {
			return true
		}
	}
}

// write writes one of the group's files. It does not make any.
func (m *member) write(file, text string) error {
	f, err := os.OpenFile(filepath.Join(m.dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func (m *member) has(file string) bool {
	_, err := os.Lstat(filepath.Join(m.dir, file))
	return err == nil
}
