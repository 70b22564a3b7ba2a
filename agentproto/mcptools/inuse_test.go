package mcptools_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto/mcptools"
)

// TestStateInUse opens the state of a set that is open, as a process does that is started twice. It is refused, and the programs
// of the set that is open continue to run.
func TestStateInUse(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	d := newDesk(t, func(o *mcptools.Options) { o.State, o.Servers[0].Env["HOME"] = folder, folder })
	d.call("t", "one", "remember", `{"Value":"it"}`)
	d.want("a call", "remembered")
	second, err := mcptools.Open(t.Context(), mcptools.Options{
		State: folder, Servers: []mcptools.Server{d.peer("p")}, Callbacks: d, Logger: slog.New(slog.DiscardHandler),
	})
	if err == nil {
		_ = second.Close(t.Context())
	}
	if err == nil || !strings.Contains(err.Error(), "is in use by another process") {
		t.Errorf("the second one: %v", err)
	}
	d.call("t", "two", "recall", "{}")
	d.want("what the program has in memory", "it|it|it")
}
