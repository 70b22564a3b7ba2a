package ratio

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// processorTime returns the processor time that this process has used, with or without the processes that
// it has waited for.
func processorTime(children bool) time.Duration {
	used := func(whose int) time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(whose, &u); err != nil {
			panic(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	if children {
		return used(syscall.RUSAGE_SELF) + used(syscall.RUSAGE_CHILDREN)
	}
	return used(syscall.RUSAGE_SELF)
}

// busy returns the processor time that the machine has used, in steps of 10 ms, or 0 if the system does
// not provide it.
func busy() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal
	if len(fields) < 9 {
		return 0
	}
	ticks := 0
	for i, f := range fields[1:9] {
		if i == 3 || i == 4 {
			continue
		}
		n, err := strconv.Atoi(f)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
