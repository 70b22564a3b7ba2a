package disklog_test

import (
	"bufio"
	"context"
	crand "crypto/rand"
	"fmt"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/dataflow/durable/disklog"
)

// childCallers is how many goroutines of a child append.
const childCallers = 4

// child is the process that is killed. It opens the log and prints what it has restored.
// Then it appends and commits, and prints what was acknowledged, until it is killed.
//
// The number of a step is that of the previous step plus one. Some steps are larger than
// a message. From time to time, child saves a snapshot in pieces and purges.
func child(dir string) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin) // ends with the parent, even if that is killed
		cancel(io.EOF)
	}()
	l, err := disklog.DirWithOptions(dir, small).Open(ctx, journal.OpenOptions{Logger: quiet})
	if err != nil {
		return err
	}
	defer l.Close()
	number, fence, err := restoreNumber(ctx, l)
	if err != nil {
		return err
	}
	h, err := l.Restore(ctx, 0)
	if err != nil {
		return err
	}
	saved := h.At
	var mu sync.Mutex
	say := func(format string, v ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf(format+"\n", v...)
	}
	say("restored %d", number)
	name := crand.Text() // differs from those of other children
	for caller := range childCallers {
		go func() {
			for n := 0; ; n++ {
				record := fmt.Appendf(nil, "%s.%d %d", name, caller, n)
				text := string(record)
				if caller == 0 && n%3 == 0 { // the message has a file
					record = append(append(record, ' '), make([]byte, 300<<10)...)
				}
				position, err := l.Append(ctx, 0, record)
				if err != nil {
					cancel(err)
					return
				}
				say("append %d %s", position, text)
			}
		}()
	}
	for ctx.Err() == nil {
		number++
		step := fmt.Append(nil, number, " ")
		if number%17 == 0 {
			step = append(step, make([]byte, 7<<20)...)
		}
		if fence, err = l.Commit(ctx, 0, fence, step); err != nil {
			return err
		}
		say("commit %d", number)
		if number%25 == 0 {
			state := append(fmt.Append(nil, number, " "), make([]byte, 1<<20)...)
			if err := l.SaveSnapshot(ctx, 0, saved, fence, state); err != nil {
				return err
			}
			saved = fence
			if err := l.Purge(ctx, 0, 0, fence); err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}

// restoreNumber returns the number of the last step and checks that all steps before it
// exist.
func restoreNumber(ctx context.Context, l journal.Log) (number int, fence uint64, err error) {
	h, err := l.Restore(ctx, 0)
	if err != nil {
		return 0, 0, err
	}
	parse := func(b []byte) (n int) {
		b = b[:min(len(b), 20)]
		if _, scan := fmt.Sscan(string(b), &n); scan != nil {
			err = fmt.Errorf("%.20q: %w", b, scan)
		}
		return n
	}
	if h.Snapshot != nil {
		number = parse(h.Snapshot)
	}
	for _, s := range h.Steps {
		if n := parse(s.Data); n != number+1 {
			return 0, 0, fmt.Errorf("step %d after step %d", n, number)
		}
		number++
	}
	return number, h.Fence, err
}

// TestKill repeatedly kills a process with a log after a random number of
// acknowledgements. What was acknowledged must exist, once and in order. A long run: go
// test ./dataflow/durable/disklog -run '^TestKill$' -kills=200
func TestKill(t *testing.T) {
	t.Parallel()
	t.Logf("rerun: -seed %d", *seed)
	rng := rand.New(rand.NewPCG(*seed, 0))
	dir := t.TempDir()
	appended := make(map[string]uint64) // positions by record
	committed := 0                      // the last number acknowledged
	for round := range *kills {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childKey+"="+dir)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var errors strings.Builder
		cmd.Stderr = &errors
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		acks, until := 0, 1+rng.IntN(150)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var n int
			var position uint64
			line := lines.Text()
			what, rest, _ := strings.Cut(line, " ")
			switch what {
			case "restored":
				fmt.Sscan(rest, &n)
				if n != committed && n != committed+1 {
					t.Errorf("round %d: restored step %d, the last one acknowledged was %d", round, n, committed)
				}
				committed = n
			case "append":
				fmt.Sscan(rest, &position)
				_, record, _ := strings.Cut(rest, " ")
				appended[record] = position
				acks++
			case "commit":
				fmt.Sscan(rest, &n)
				committed = n
				acks++
			}
			if acks == until {
				cmd.Process.Kill() // and continue with what it has printed before
			}
		}
		cmd.Wait()
		if acks < until {
			t.Fatalf("round %d: the process ended by itself after %d acknowledgements: %s", round, acks, &errors)
		}
	}
	checkAfterKills(t, dir, appended, committed)
}

func checkAfterKills(t *testing.T, dir string, appended map[string]uint64, committed int) {
	ctx := soon(t)
	l := open(t, dir, journal.OpenOptions{})
	if number, _, err := restoreNumber(ctx, l); err != nil || number != committed && number != committed+1 {
		t.Errorf("restored step %d (%v), the last one acknowledged was %d", number, err, committed)
	}
	t.Logf("%d kills, %d steps, %d records", *kills, committed, len(appended))
	r, err := l.Read(ctx, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	last, err := r.Last(ctx)
	if err != nil {
		t.Fatal(err)
	}
	next := make(map[string]int)
	for at := uint64(0); at < last; {
		messages, err := r.Next(ctx, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			at = m.Position
			for _, record := range m.Records {
				var caller string
				var n int
				if _, err := fmt.Sscan(string(record), &caller, &n); err != nil || n != next[caller] {
					t.Errorf("%.80q, the next one of its caller is %d (%v)", record, next[caller], err)
				}
				next[caller] = n + 1
				text := fmt.Sprintf("%s %d", caller, n)
				if position, ok := appended[text]; ok && position != m.Position {
					t.Errorf("%q is at position %d, acknowledged at %d", text, m.Position, position)
				}
				delete(appended, text)
				if size := len(record); size > 1000 && size != len(text)+1+300<<10 {
					t.Errorf("%q has %d bytes", text, size)
				}
			}
		}
	}
	for record, position := range appended {
		t.Errorf("lost: %q, acknowledged at position %d", record, position)
	}
	if len(next) == 0 || committed == 0 {
		t.Error("nothing was read back, so nothing was checked")
	}
}
