package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace/millrace/dataflow/connect/kafka/kafkatest"
	"github.com/millrace/millrace/dataflow/connect/postgres/postgrestest"
)

var lasts = flag.Duration("killed", 15*time.Second, "for how long the program is killed again and again")

func TestMain(m *testing.M) {
	code := m.Run()
	kafkatest.Stop()
	os.Exit(code)
}

// A program is a process that runs `orders run`.
type program struct {
	t       *testing.T
	cmd     *exec.Cmd
	running chan struct{} // closed when the program reports that it is running, or has ended
	ended   chan struct{}
}

func start(t *testing.T, binary string, s settings) *program {
	t.Helper()
	p := &program{t: t, running: make(chan struct{}), ended: make(chan struct{})}
	p.cmd = exec.Command(binary, "run", "-kafka", s.brokers, "-topic", s.topic, fmt.Sprint("-partitions=", s.partitions), "-database", s.database,
		"-history", s.history, fmt.Sprint("-window=", s.times.Window), fmt.Sprint("-slack=", s.times.Slack))
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.cmd.Process.Kill() })
	go func() {
		defer close(p.ended)
		lines := bufio.NewScanner(out)
		lines.Scan()
		close(p.running)
		for lines.Scan() {
		}
	}()
	return p
}

// end sends a signal, and checks that the program ends because of this signal.
func (p *program) end(s syscall.Signal, want string) {
	p.t.Helper()
	p.cmd.Process.Signal(s)
	<-p.ended
	if p.cmd.Wait(); p.cmd.ProcessState.String() != want {
		p.t.Fatalf("the program ended with %s, want %s", p.cmd.ProcessState, want)
	}
}

// written returns a channel that is closed when totals are committed.
func written(t *testing.T, s settings) <-chan struct{} {
	t.Helper()
	ctx := t.Context()
	c := postgrestest.Connect(t, s.database)
	postgrestest.Exec(t, c, `create or replace function tell() returns trigger language plpgsql as $$ begin notify written; return null; end $$`)
	postgrestest.Exec(t, c, "create or replace trigger tell after insert on totals for each statement execute function tell()")
	postgrestest.Exec(t, c, "listen written")
	told := make(chan struct{})
	go func() {
		defer c.Close(context.WithoutCancel(ctx))
		if _, err := c.WaitForNotification(ctx); err == nil {
			close(told)
		}
	}()
	return told
}

// TestKilled kills the program at random while orders arrive and customers change. The totals
// equal those of a query over all orders. Each total and each rejected order is there once.
func TestKilled(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "orders")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	server := postgrestest.Start(t, "track_commit_timestamp=on")
	s := settings{
		brokers: kafkatest.Start(t), topic: "orders", partitions: 4, database: server.Database(t), history: filepath.Join(t.TempDir(), "history"),
		times: Times{Window: time.Second, Slack: time.Second}, rate: 1000, lasts: 24 * time.Hour,
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	produced := make(chan error, 1)
	go func() { produced <- produce(ctx, s) }()

	var kills [3]int
	for end := time.After(*lasts); end != nil; {
		p := start(t, binary, s)
		how := rand.IntN(len(kills))
		kills[how]++
		wrote, after := (<-chan struct{})(nil), rand.Int64N(int64(4*time.Second))
		if how > 0 {
			<-p.running
		}
		if how == 2 {
			wrote, after = written(t, s), int64(time.Minute)
		}
		select {
		case <-time.After(time.Duration(after)):
		case <-wrote: // the flow may not know yet that they are committed
		case err := <-produced:
			t.Fatalf("producing has ended: %v", err)
		case <-end:
			end = nil
		}
		p.end(syscall.SIGKILL, "signal: killed")
	}
	t.Logf("killed %d times at any time, %d times while it ran, %d times when it had just written totals", kills[0], kills[1], kills[2])

	p := start(t, binary, s)
	db, err := pgx.Connect(ctx, s.database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.WithoutCancel(ctx))
	last := time.Now()
	if err := until(ctx, func() (written bool, err error) {
		select {
		case <-p.ended:
			return false, fmt.Errorf("the program ended: %v", p.cmd.Wait())
		default:
		}
		err = db.QueryRow(ctx, "select exists (select from totals where start > $1)", last).Scan(&written)
		return written, err
	}); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-produced; err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	for { // rejected orders appear as they are read, and some may not have been read yet
		different, err := compare(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if wrong := slices.DeleteFunc(slices.Clone(different), func(line string) bool { return strings.HasPrefix(line, "not rejected: ") }); len(wrong) > 0 {
			t.Fatalf("%d differences:\n%s", len(wrong), strings.Join(wrong[:min(20, len(wrong))], "\n"))
		}
		if len(different) == 0 {
			break
		}
	}
	p.end(syscall.SIGTERM, "exit status 0")
	if err := check(t.Context(), s); err != nil {
		t.Error(err)
	}
}
