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

// waitGroup waits for the end of a program and kills what is left of its group, while nobody else can have its
// number: the program is not waited for yet.
func waitGroup(cmd *exec.Cmd) error {
	for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	killGroup(cmd)
	return cmd.Wait()
}

// identity returns a text that is the same for as long as a process lives, and is that of no other one
// of the number: when the system, and the process in it, was started.
func identity(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // the name may have blanks in it
	if err != nil || len(fields) < 20 {
		return ""
	}
	return string(bytes.TrimSpace(boot)) + " " + string(fields[19])
}

// killLeft kills the group of a process that an earlier process of this program has left.
func killLeft(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
