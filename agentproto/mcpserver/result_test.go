package mcpserver_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/mcpserver"
)

// refusing are calls whose tools cannot be listed.
type refusing struct{ *calls }

func (refusing) Tools(context.Context, string) ([]host.Tool, error) {
	return nil, errors.New("canary: give another token")
}

// TestInternalErrorIsLogged checks that an unknown error is logged, since its client is not told what it is.
func TestInternalErrorIsLogged(t *testing.T) {
	var log bytes.Buffer
	w := newWorldOf(t, mcpserver.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, refusing{newCalls()})
	for _, method := range []string{"tools/list", "tools/call"} {
		log.Reset()
		got := w.say(t.Context(), method, `{"name":"one","arguments":{}}`)
		got.is(t, method, -32603, 0)
		if strings.Contains(got.text, "canary") || !strings.Contains(log.String(), "canary: give another token") {
			t.Errorf("%s: the client is told %s, and the log has %q", method, got.text, log.String())
		}
	}
}
