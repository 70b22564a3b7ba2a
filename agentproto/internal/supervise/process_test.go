package supervise_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto/internal/supervise"
	"github.com/millrace/millrace/internal/edge"
)

// TestMain lets the test binary act as the programs of these tests.
func TestMain(m *testing.M) {
	switch what, file := os.Getenv("SUPERVISE_ACT"), os.Getenv("SUPERVISE_FILE"); what {
	case "":
		os.Exit(m.Run())
	case "serve": // until it is interrupted
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		sign(file)
		<-ctx.Done()
		fmt.Println("interrupted")
	case "stubborn": // until it is killed
		signal.Ignore(os.Interrupt)
		sign(file)
		select {}
	case "leashed": // until its standard input is closed
		signal.Ignore(os.Interrupt)
		sign(file)
		io.Copy(io.Discard, os.Stdin)
	case "parent": // starts another process, which ignores interrupts
		sign(file + ".parent")
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), "SUPERVISE_ACT=stubborn")
		if err := child.Start(); err != nil {
			panic(err)
		}
		child.Wait()
	case "fails":
		fmt.Fprintln(os.Stderr, "starting\nlisten tcp 127.0.0.1:8801: address \x1b[31min use")
		os.Exit(3)
	case "supervisor": // supervises another process until it is killed
		env := append(os.Environ(), "SUPERVISE_ACT="+os.Getenv("SUPERVISE_CHILD"))
		if _, err := supervise.Start(supervise.Command{Args: os.Args[:1], Env: env}, supervise.Options{Ready: signed(file)}); err != nil {
			panic(err)
		}
		select {}
	}
}

// sign appends the process id to a file, on its own line.
func sign(file string) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(f, os.Getpid())
	f.Close()
}

// pids returns the process ids in the file.
func pids(file string) (all []int) {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		n, _ := strconv.Atoi(lines.Text())
		all = append(all, n)
	}
	return all
}

// signed returns a check that the process that signed last is running.
func signed(file string) func(context.Context) error {
	return func(context.Context) error {
		if all := pids(file); len(all) > 0 && alive(all[len(all)-1]) {
			return nil
		}
		return errors.New("it has not signed")
	}
}

// alive reports whether a process is running. An ended process may keep its id until its
// parent has waited for it.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	return syscall.Kill(pid, 0) == nil && (err != nil || !strings.HasPrefix(state, "Z"))
}

// wantGone waits until the process no longer exists.
func wantGone(t *testing.T, pid int) {
	t.Helper()
	for again := time.NewTicker(10 * time.Millisecond); alive(pid); {
		select {
		case <-again.C:
		case <-t.Context().Done():
			t.Fatalf("process %d is still there", pid)
		case <-time.After(10 * time.Second):
			t.Fatalf("process %d is still there", pid)
		}
	}
}

// program returns a command that runs the test binary, and the file that it signs.
func program(t *testing.T, what string) (supervise.Command, string) {
	file := filepath.Join(t.TempDir(), "pids")
	return supervise.Command{Args: os.Args[:1], Env: append(os.Environ(), "SUPERVISE_ACT="+what, "SUPERVISE_FILE="+file)}, file
}

var soon = edge.Curve{First: []time.Duration{time.Millisecond}, Most: time.Millisecond}

func start(t *testing.T, c supervise.Command, o supervise.Options) *supervise.Process {
	t.Helper()
	p, err := supervise.Start(c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(t.Context()) })
	return p
}

func up(t *testing.T, p *supervise.Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		err := p.Up(ctx)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// TestKilled checks that a killed program is restarted, and a stopped one is not.
func TestKilled(t *testing.T) {
	c, file := program(t, "serve")
	ended := make(chan error, 10)
	p := start(t, c, supervise.Options{Ready: signed(file), Pauses: soon, Ended: func(err error) { ended <- err }})
	for n := range 5 {
		up(t, p)
		all := pids(file)
		if len(all) != n+1 {
			t.Fatalf("it was started %d times, want %d", len(all), n+1)
		}
		syscall.Kill(all[n], syscall.SIGKILL)
		if err := <-ended; !strings.Contains(err.Error(), "signal: killed") || !strings.Contains(err.Error(), c.Args[0]) {
			t.Errorf("it has ended with %v", err)
		}
	}
	up(t, p)
	if p.Err() != nil {
		t.Errorf("it is up, and the error is %v", p.Err())
	}
	p.Stop(t.Context())
	all := pids(file)
	wantGone(t, all[len(all)-1])
	if len(all) != 6 || len(ended) != 0 {
		t.Errorf("it was started %d times, and has ended %d more", len(all), len(ended))
	}
	if err := p.Up(t.Context()); err == nil {
		t.Error("it is up after it was stopped")
	}
}

// TestEndsAtOnce checks that a program that ends at once is restarted after growing pauses,
// however often Up is called. The error names the program and includes its last output.
func TestEndsAtOnce(t *testing.T) {
	c, _ := program(t, "fails")
	var began time.Time
	ended := make(chan time.Duration, 100)
	p := start(t, c, supervise.Options{
		Ready: func(context.Context) error { return errors.New("no") },
		Ended: func(error) { ended <- time.Since(began); began = time.Now() },
	})
	err := p.Up(t.Context())
	if err == nil || !strings.Contains(err.Error(), c.Args[0]) || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), `address \u{1b}[31min use`) {
		t.Errorf("it says %v", err)
	}
	<-ended
	for i, least := range []time.Duration{40 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond} {
		if pause := <-ended; pause < least {
			t.Errorf("pause %d is %v, want at least %v", i, pause, least)
		}
	}
	asked := time.Now() // Up does not shorten the pauses
	for n := 0; n < 2; n++ {
		if err := p.Up(t.Context()); err == nil {
			t.Error("it is up")
		}
	}
	if took := time.Since(asked); took < 900*time.Millisecond || took > 20*time.Second {
		t.Errorf("two more starts took %v", took)
	}
}

// TestNoProgram checks that a program that cannot be started, at once or later, is an error
// that names it.
func TestNoProgram(t *testing.T) {
	ready := func(context.Context) error { return nil }
	for _, args := range [][]string{nil, {"/nowhere/at/all", "x"}, {t.TempDir()}, {"no-such-program-anywhere"}} {
		_, err := supervise.Start(supervise.Command{Args: args}, supervise.Options{Ready: ready})
		if err == nil || len(args) > 0 && !strings.Contains(err.Error(), args[0]) {
			t.Errorf("%q: %v", args, err)
		}
	}
	gone := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(gone, []byte("#!/nowhere/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := start(t, supervise.Command{Args: []string{gone}}, supervise.Options{Ready: func(context.Context) error { return errors.New("no") }})
	if err := p.Up(t.Context()); err == nil || !strings.Contains(err.Error(), gone+" cannot be started") {
		t.Errorf("it says %v", err)
	}
}

// TestNotReady checks that Up waits for a program that is not ready until its context ends.
func TestNotReady(t *testing.T) {
	c, file := program(t, "serve")
	p := start(t, c, supervise.Options{Ready: func(context.Context) error { return errors.New("no") }})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.Up(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "is not ready") {
		t.Errorf("it says %v", err)
	}
	p.Stop(t.Context())
	for _, pid := range pids(file) {
		wantGone(t, pid)
	}
}

// TestStubborn checks that a program that ignores its interrupt is killed, with the
// processes that it started.
func TestStubborn(t *testing.T) {
	for _, what := range []string{"stubborn", "parent"} {
		c, file := program(t, what)
		p := start(t, c, supervise.Options{Ready: signed(file), Grace: 50 * time.Millisecond})
		up(t, p)
		p.Stop(t.Context())
		wantGone(t, pids(file)[0])
	}
	c, file := program(t, "stubborn")
	p := start(t, c, supervise.Options{Ready: signed(file), Grace: time.Hour})
	up(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	p.Stop(ctx)
	wantGone(t, pids(file)[0])
}

// TestLeftOver checks that processes started by a program do not outlive it: they might
// keep its port.
func TestLeftOver(t *testing.T) {
	c, file := program(t, "parent")
	p := start(t, c, supervise.Options{Ready: signed(file), Pauses: soon})
	up(t, p)
	first := pids(file)[0]
	syscall.Kill(pids(file + ".parent")[0], syscall.SIGKILL)
	wantGone(t, first)
	up(t, p)
}

// TestSupervisorKilled checks that a program ends when its supervisor is killed: by the
// parent-death signal on Linux, and by the end of its standard input everywhere.
func TestSupervisorKilled(t *testing.T) {
	for _, what := range []string{"leashed", "stubborn"} {
		if what == "stubborn" && !diesWithParent {
			continue
		}
		c, file := program(t, "supervisor")
		cmd := exec.Command(c.Args[0])
		cmd.Env = append(c.Env, "SUPERVISE_CHILD="+what)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for again := time.NewTicker(10 * time.Millisecond); signed(file)(t.Context()) != nil; {
			<-again.C
		}
		cmd.Process.Kill()
		cmd.Wait()
		wantGone(t, pids(file)[0])
	}
}

// TestOutput checks that all output of a program is read, and that the error contains its
// end.
func TestOutput(t *testing.T) {
	var all strings.Builder
	c := supervise.Command{Args: []string{"sh", "-c", "seq 1 200000; printf 'the last\x1b[1m line' >&2; exit 1"}, Output: &all}
	ended := make(chan error, 1)
	p := start(t, c, supervise.Options{Ready: func(context.Context) error { return errors.New("no") }, Ended: func(err error) {
		select {
		case ended <- err:
		default:
		}
	}})
	err := <-ended
	p.Stop(t.Context())
	if !strings.HasSuffix(err.Error(), `the last\u{1b}[1m line`) {
		t.Errorf("it has ended with %v", err)
	}
	if !strings.Contains(all.String(), "\n199999\n200000\nthe last") {
		t.Errorf("%d bytes were printed, and not to the end", all.Len())
	}
}
