package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/millrace/millrace/agentproto/runtime"
	"github.com/millrace/millrace/dataflow/durable"
)

const serveUsage = `usage: millrace serve --state DIR --tool URL [--tool URL ...] [flags]

Makes tool calls that survive this process: what was accepted is kept under DIR, or
in a NATS cluster with --nats, and a restart goes on with what was pending. Calls are
made and read over HTTP, at --api:

  POST   /calls                  a call, as in a file of 'millrace run'; 202 when it is kept
  GET    /calls/THREAD/ID        its result; 204 if there is none within ?wait=30s
  DELETE /calls/THREAD/ID        cancels it
  DELETE /threads/THREAD         closes a thread and resolves its calls

With --nats several processes share the calls: each can make and read all of them, a
result may be posted to any of them, and if one is killed another goes on. They need the
same callback.key: copy it from one --state folder to the others. Give all of them a
--public address that reaches whichever is there, or the result of a call waits until the
process that made it is back.

The API has no authentication: it listens on this host alone unless told otherwise.
Tool servers post results to --listen, which has to stay the same, or to --public.

`

// stopWithin is how long a runtime that is told to stop may take.
const stopWithin = 15 * time.Second

func serve(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("serve", flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprint(fs.Output(), serveUsage); fs.PrintDefaults() }
	var tools, servers urls
	fs.Var(&tools, "tool", "base `URL` of a tool server; may be given more than once")
	state := fs.String("state", "", "`folder` of the key for callback URLs and, without --nats, of everything that is kept")
	fs.Var(&servers, "nats", "`address` of a NATS server, such as nats://10.0.0.1:4222, instead of one inside this process; may be given more than once")
	credentials := fs.String("credentials", "", "`file` with credentials for the NATS servers")
	system := fs.String("nats-system", "", "`address` of a NATS server for a user of its system account, which says whether the servers sync always")
	assume := fs.Bool("assume-durable", false, "take it that the NATS servers sync always, whatever they say")
	replicas := fs.Int("replicas", 3, "how many NATS servers keep each record")
	name := fs.String("name", "millrace", "what tells this application apart on the NATS servers")
	listen := fs.String("listen", "127.0.0.1:7340", "`address` of the callback endpoint")
	public := fs.String("public", "", "`URL` at which tool servers reach the callback endpoint, if not that address")
	api := fs.String("api", "127.0.0.1:7341", "`address` of the API")
	keep := fs.Bool("keep-history", false, "keep every step, for 'millrace log replay', and not only those since the last snapshot")
	timeout := fs.Duration("timeout", 15*time.Minute, "how long a call may wait for its result, detours not counted")
	if err := parse(fs, args); err != nil {
		return err
	}
	switch {
	case *state == "":
		return misused(fs, "no --state folder")
	case len(tools) == 0:
		return misused(fs, "no tool server: give at least one --tool URL")
	case fs.NArg() > 0:
		return misused(fs, "what is %s?", strings.Join(fs.Args(), " "))
	case *timeout <= 0:
		return misused(fs, "--timeout must be positive")
	}
	secret, err := keyOf(*state)
	if err != nil {
		return err
	}
	sealer, err := runtime.SealerOf(secret)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	rt, err := runtime.Start(context.WithoutCancel(ctx), runtime.Options{
		Toolsets: tools, ListenAddr: *listen, PublicURL: *public, Sealer: sealer, Logger: logger,
		Surface:  runtime.NewTerminal(strings.NewReader(""), os.Stderr),
		Timeouts: runtime.Timeouts{Call: *timeout},
		State: &durable.Options{
			Name: *name, Dir: filepath.Join(*state, "history"), Servers: servers,
			Credentials: *credentials, SystemServer: *system, AssumeDurable: *assume, Replicas: *replicas, KeepHistory: *keep, Logger: logger,
		},
	})
	if err != nil {
		return err
	}
	for _, p := range rt.Problems() {
		fmt.Fprintf(os.Stderr, "millrace serve: %v\n", p)
	}
	err = serveAPI(ctx, rt, *api)
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	return errors.Join(err, rt.Stop(stopping))
}

// serveAPI serves the API until ctx ends.
func serveAPI(ctx context.Context, rt *runtime.Runtime, address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: apiOf(rt), ReadHeaderTimeout: 5 * time.Second}
	fmt.Fprintf(os.Stderr, "millrace serve: calls at http://%s/calls, callbacks at %s\n", listener.Addr(), rt.PublicURL())
	stop := context.AfterFunc(ctx, func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if server.Shutdown(closing) != nil {
			server.Close()
		}
	})
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// keyOf returns the key for callback URLs that is kept in a folder, made if there is
// none. It is written whole or not at all, and for the owner alone.
func keyOf(folder string) (secret [32]byte, err error) {
	name := filepath.Join(folder, "callback.key")
	text, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		if text, err = makeKey(folder, name); err != nil {
			return secret, err
		}
	}
	if err != nil {
		return secret, err
	}
	raw, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(raw) != len(secret) {
		return secret, fmt.Errorf("%s is not a key: it has to be %d bytes in hexadecimal digits", name, len(secret))
	}
	return [32]byte(raw), nil
}

func makeKey(folder, name string) ([]byte, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	var secret [32]byte
	rand.Read(secret[:])
	text := []byte(hex.EncodeToString(secret[:]) + "\n")
	draft, err := os.CreateTemp(folder, "callback.key-*") // of mode 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(draft.Name())
	_, err = draft.Write(text)
	if err := errors.Join(err, draft.Sync(), draft.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(draft.Name(), name); errors.Is(err, os.ErrExist) {
		return os.ReadFile(name) // another process was first
	} else if err != nil {
		return nil, err
	}
	return text, nil
}
