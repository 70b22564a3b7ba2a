package mcptools_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/agentproto/mcptools"
)

// A log collects log output.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// has reports whether the log matches a pattern.
func (l *log) has(pattern string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return regexp.MustCompile(pattern).MatchString(l.text.String())
}

// offers reports whether a tool is in the manifest.
func (d *desk) offers(tool string) bool {
	d.t.Helper()
	for _, t := range d.manifest().Tools {
		if t.Name == tool {
			return true
		}
	}
	return false
}

// TestMB31_Pin has a server change the description of a tool, while it runs and between two starts. The test fails if the changed
// tool is still offered, if it comes back under its name later, or if the report lacks the digests.
func TestMB31_Pin(t *testing.T) {
	t.Parallel()
	const digests = `"late" is not offered: it has changed since it was first seen, from the digest [0-9a-f]{32} to [0-9a-f]{32}`
	folder, logged := t.TempDir(), new(log)
	open := func(pin bool) *desk {
		return newDesk(t, func(o *mcptools.Options) {
			o.State, o.Servers[0].Pin, o.Logger = folder, pin, slog.New(slog.NewTextHandler(logged, nil))
		})
	}
	reported := func(d *desk) bool {
		return regexp.MustCompile(digests).MatchString(errors.Join(d.set.Problems()...).Error())
	}
	d := open(true)
	step := func(tool, want string) {
		t.Helper()
		d.call("t", tool, tool, "{}")
		d.want(tool, want)
	}
	step("grow", "grown")
	d.until("the new tool is offered", func() bool { return d.offers("p_late") })
	step("late", "late")
	step("swap", "swapped")
	d.until("the swapped tool is refused", func() bool { return !d.offers("p_late") })
	if !reported(d) {
		t.Errorf("it is reported as %v", d.set.Problems())
	}
	d.call("t", "again", "late", "{}") // from a conversation that still has the tool
	d.want("a call of it", `Error: unknown tool "p_late"`)
	d.call("t", "shrink", "shrink", "{}")
	d.want("shrink", "shrunk")
	d.until("nothing is wrong", func() bool { return len(d.set.Problems()) == 0 })
	close := func() {
		t.Helper()
		if err := d.set.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	close()
	for i, c := range []struct {
		pin, offered bool
	}{{true, false}, {false, true}, {true, true}} { // still refused, then accepted, then pinned as it is now
		d = open(c.pin)
		d.call("t", fmt.Sprint("swap", i), "swap", "{}")
		d.want("swap", "swapped")
		if c.offered {
			d.until("it is offered", func() bool { return d.offers("p_late") })
		} else {
			d.until("it is refused", func() bool { return len(d.set.Problems()) > 0 })
			if d.offers("p_late") || !reported(d) {
				t.Errorf("it is reported as %v", d.set.Problems())
			}
		}
		close()
	}
	for _, line := range []string{
		`has a new tool" server=p tool=p_late now=[0-9a-f]{32}`, `no longer has a tool" server=p tool=p_late before=[0-9a-f]{32}`, strings.ReplaceAll(digests, `"`, `\\"`),
	} {
		if !logged.has(line) {
			t.Errorf("%s is not in the log", line)
		}
	}
}

// TestListChanged removes a tool that an open conversation still knows. A call of it returns an error, other calls continue, and
// new conversations are not offered the tool.
func TestListChanged(t *testing.T) {
	d := newDesk(t, nil)
	d.call("t", "w", "wait", "{}")
	for i, tool := range []string{"grow", "late", "shrink"} {
		d.call("t", tool, tool, "{}")
		d.want(tool, []string{"grown", "late", "shrunk"}[i])
		switch i {
		case 0:
			d.until("the tool is there", func() bool { return d.offers("p_late") })
		case 2:
			d.until("the tool has gone", func() bool { return !d.offers("p_late") })
		}
	}
	d.call("t", "gone", "late", "{}")
	d.want("a call of it", `Error: unknown tool "p_late"`)
	if d.noted("waits") != 1 || d.noted("cancelled") != 0 {
		t.Error("the call that was under way has ended")
	}
}
