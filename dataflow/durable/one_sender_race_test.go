//go:build race

package durable

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// TestOneSenderRaces checks that the race detector reports two concurrent senders of a
// durable flow. The log orders their records, but the program does not order the calls. The
// senders run in a child process.
func TestOneSenderRaces(t *testing.T) {
	const program = "MILLRACE_SENDER_PROGRAM"
	if how := os.Getenv(program); how != "" {
		app := start(t, journal.NewMemory(journal.MemoryOptions{}), func(f *dataflow.Flow) inputPorts { return inputs(dataflow.At[server](f)) }, tiny)
		sends := map[string]func(){
			"one": func() { app.Ports.one.Send(t.Context(), "x") }, "keyed": func() { app.Ports.keyed.Send(t.Context(), "k", "x") },
			"senders": func() { app.Ports.senders.Sender("a").Send(t.Context(), "x") }, "shared": func() { app.Ports.shared.Send(t.Context(), "x") },
			"keyed batch": func() { app.Ports.keyed.SendBatch(t.Context(), []string{"k", "l"}, []string{"x", "y"}) },
			"put batch":   func() { app.Ports.puts.PutBatch(t.Context(), []string{"k", "l"}, []string{"x", "y"}) },
		}
		var all sync.WaitGroup
		for range 2 {
			all.Go(sends[how])
		}
		all.Wait()
		stop(t, app)
		return
	}
	for how, race := range map[string]bool{"one": true, "keyed": true, "senders": true, "shared": false, "keyed batch": true, "put batch": false} {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestOneSenderRaces$")
		c.Env = append(os.Environ(), program+"="+how, "GORACE=halt_on_error=1")
		out, err := c.CombinedOutput()
		if reported := strings.Contains(string(out), "WARNING: DATA RACE"); reported != race || (err != nil) != race {
			t.Errorf("%s: reported %t, want %t: %v\n%s", how, reported, race, err, out)
		}
	}
}
