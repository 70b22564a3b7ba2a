package mcpserver_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"

	"github.com/millrace/millrace/agentproto/mcpserver"
)

// TestClientLeavesStreams checks that it is no error if a client leaves, also in the middle of a message, and that a wrong
// message is one. In no case is anything logged, nor if ctx ends.
func TestClientLeavesStreams(t *testing.T) {
	const request = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for name, test := range map[string]struct {
		said  string
		wrong bool
	}{
		"at once":               {"", false},
		"after a message":       {request + "\n", false},
		"without a newline":     {request, false},
		"in the middle":         {request + "\n" + request[:20], false},
		"after a wrong message": {"{]\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			w := newWorld(t, mcpserver.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
			in, toServer := io.Pipe()
			out, toClient := io.Pipe()
			go io.Copy(io.Discard, out)
			ended := make(chan error, 1)
			go func() { ended <- w.server.ServeStdio(t.Context(), mcpserver.Owner{Name: "alice"}, in, toClient) }()
			if _, err := io.WriteString(toServer, test.said); err != nil {
				t.Fatal(err)
			}
			toServer.Close()
			if err := <-ended; (err != nil) != test.wrong || log.Len() > 0 {
				t.Errorf("it ends with %v, and logs %q", err, log.String())
			}
		})
	}
	var log bytes.Buffer
	w := newWorld(t, mcpserver.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	in, toServer := io.Pipe()
	defer toServer.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.server.ServeStdio(ctx, mcpserver.Owner{Name: "alice"}, in, toServer); !errors.Is(err, context.Canceled) || log.Len() > 0 {
		t.Errorf("when ctx ends: %v, log %q", err, log.String())
	}
}
