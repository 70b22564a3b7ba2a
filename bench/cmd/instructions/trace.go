//go:build linux && amd64

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// A profile says where the instructions of a form were executed.
type profile struct {
	form     form
	elements int
	at       map[string]int // instructions by function
	total    int
}

// tries is how often a form is tried that is over before it is stopped, because other programs use
// the processors.
const tries = 10

// mostBefore is the number of instructions after which a form is taken not to call its function.
const mostBefore = 2_000_000

// errOver says that a form was over before its instructions were counted.
var errOver = errors.New("the program has ended")

// trace counts the instructions for some elements of a form.
func trace(f form, elements int) (p *profile, err error) {
	for range tries {
		if p, err = traceOnce(f, elements); !errors.Is(err, errOver) {
			break
		}
	}
	return p, err
}

// traceOnce starts this program once more, to do a form, lets it do half of it, and then executes
// some instructions one at a time. It counts from the first call of the form's function to the last.
func traceOnce(f form, elements int) (*profile, error) {
	runtime.LockOSThread() // only the thread that starts a program traces it
	defer runtime.UnlockOSThread()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "-job", f.job, "-traced", f.name)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	thread := traced{cmd.Process.Pid}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if err := thread.until(syscall.SIGTRAP); err != nil { // it has started
		return nil, err
	}
	if err := thread.resume(0); err != nil {
		return nil, err
	}
	if err := thread.until(syscall.SIGSTOP); err != nil { // it is ready
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, err
	}
	took, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return nil, err
	}
	if err := thread.resume(0); err != nil {
		return nil, err
	}
	<-time.After(time.Duration(took) / 2)
	if err := syscall.Tgkill(thread.id, thread.id, syscall.SIGSTOP); err != nil {
		return nil, err
	}
	if err := thread.until(syscall.SIGSTOP); err != nil {
		return nil, err
	}
	return count(thread, f, elements)
}

// count executes instructions until the form has taken so many elements.
func count(thread traced, f form, elements int) (*profile, error) {
	type place struct {
		function string
		unit     bool // here the function is called that the form calls for each unit
	}
	places := make(map[uintptr]place)
	unit := regexp.MustCompile(f.calls)
	p := &profile{form: f, at: make(map[string]int)}
	since := make(map[string]int) // since the last call
	calls, executed := 0, 0
	var before place
	away := "" // if not empty, the function in which the goroutine goes on
	for (calls-1)*f.elements < elements {
		pc, err := thread.step()
		if err != nil {
			return nil, err
		}
		if executed++; calls == 0 && executed > mostBefore {
			return nil, fmt.Errorf("no call of %s in %d instructions", f.calls, executed)
		}
		at, ok := places[pc]
		if !ok {
			at.function = "outside Go"
			if fn := runtime.FuncForPC(pc); fn != nil { // this program has the same addresses
				at.function = fn.Name()
				at.unit = fn.Entry() == pc && unit.MatchString(at.function)
			}
			places[pc] = at
		}
		if away == "" && strings.HasPrefix(at.function, "runtime.morestack") {
			away = before.function // the runtime was asked to switch to another goroutine, because this one takes long
		}
		if at.unit && before.function != at.function { // a method of a generic type calls one of the same name
			if calls++; calls > 1 {
				for name, n := range since {
					p.at[name] += n
					p.total += n
				}
			}
			clear(since)
		}
		switch {
		case away == "":
			since[at.function]++
		case at.function == away:
			away = ""
		}
		before = at
	}
	p.elements = (calls - 1) * f.elements
	return p, nil
}

// A traced is a thread of another program.
type traced struct{ id int }

// until waits until the thread stops because of a signal, and forwards others.
func (t traced) until(want syscall.Signal) error {
	for {
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(t.id, &status, 0, nil); err != nil {
			return err
		}
		switch {
		case !status.Stopped():
			return fmt.Errorf("%w: %#x", errOver, uint32(status))
		case status.StopSignal() == want:
			return nil
		}
		if err := t.resume(int(status.StopSignal())); err != nil {
			return err
		}
	}
}

func (t traced) resume(signal int) error { return syscall.PtraceCont(t.id, signal) }

// step executes an instruction and returns the address of the next one. Signals that come meanwhile
// are dropped: the runtime asks for preemption with them.
func (t traced) step() (uintptr, error) {
	if err := syscall.PtraceSingleStep(t.id); err != nil {
		return 0, err
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(t.id, &status, 0, nil); err != nil {
		return 0, err
	}
	if !status.Stopped() {
		return 0, fmt.Errorf("%w: %#x", errOver, uint32(status))
	}
	var regs syscall.PtraceRegs
	pc := uintptr(0)
	at := unsafe.Offsetof(regs.Rip)
	if _, _, err := syscall.Syscall6(syscall.SYS_PTRACE, syscall.PTRACE_PEEKUSR, uintptr(t.id), at, uintptr(unsafe.Pointer(&pc)), 0, 0); err != 0 {
		return 0, err
	}
	return pc, nil
}
