package mcptools

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// waitGroup waits for the end of a program and kills the rest of its group. It kills before it reaps the
// program, so that no other process can have its number.
func waitGroup(cmd *exec.Cmd) error {
	for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	killGroup(cmd)
	return cmd.Wait()
}

// identity returns a text that identifies a process during its life, and never another process with the same
// number: the boot of the system and the start of the process.
func identity(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // the name may contain blanks
	if err != nil || len(fields) < 20 {
		return ""
	}
	return string(bytes.TrimSpace(boot)) + " " + string(fields[19])
}

// killLeft kills the process group of a program that an earlier process has left running.
func killLeft(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
