package migrate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto/internal/handover"
	"github.com/millrace/millrace/agentproto/internal/tools"
	"github.com/millrace/millrace/internal/netguard"
)

func TestDestination(t *testing.T) {
	m := New(t.Context(), Options{Networks: netguard.Policy{AllowLoopback: true}, Destinations: []string{
		"https://b.example", "https://c.example/tools/", "http://127.0.0.1:*", "http://10.0.0.1",
	}})
	for raw, want := range map[string]string{
		"https://b.example":         "https://b.example",
		"HTTPS://B.example/":        "https://b.example",
		"https://b.example/path":    "https://b.example/path", // an origin includes everything below it
		"https://c.example/tools":   "https://c.example/tools",
		"http://127.0.0.1:8080":     "http://127.0.0.1:8080",
		"https://c.example":         "",
		"https://c.example/other":   "",
		"https://b.example:444":     "",
		"https://b.example/a/../b":  "",
		"https://b.example/..":      "",
		"https://me@b.example":      "",
		"https://b.example?query":   "",
		"https://b.example.evil":    "",
		"http://127.0.0.2:8080":     "",
		"http://10.0.0.1":           "", // allowed by name, but not by the networks
		"ftp://b.example":           "",
		"https:b.example":           "",
		"//b.example":               "",
		"https://b.example/#anchor": "",
	} {
		got, err := m.destination(raw)
		if got != want || (err == nil) != (want != "") || err != nil && !errors.Is(err, errDestination) {
			t.Errorf("%s: %q, %v, want %q", raw, got, err, want)
		}
	}
}

// TestNoTool restarts an instance without the function that moves sessions while a move
// is in doubt.
func TestNoTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(t.Context(), Options{})
		job, at := tools.Job{Move: tools.Move{State: handover.State{Transfer: "t1"}, URL: "https://b.example"}}, tools.Place{Session: "s"}
		if o := m.Hold(t.Context(), job); o.Suspended || o.Committed {
			t.Errorf("Hold = %+v", o)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		if o := m.Conclude(ctx, at, job); !o.Suspended || o.Committed {
			t.Errorf("Conclude = %+v", o)
		}
	})
}
