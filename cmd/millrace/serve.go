package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
)

const serveUsage = `usage: millrace serve --state DIR --tool URL [--tool URL ...] [flags]
       millrace serve --state DIR --tool-command COMMAND [flags]
       millrace serve --state DIR --mcp COMMAND [flags]
       millrace serve --config FILE [flags]

Makes tool calls that survive this process: what was accepted is kept under DIR, or
in a NATS cluster with --nats, and a restart goes on with what was pending. Calls are
made and read over HTTP, at --api:

  POST   /calls                  a call, as in a file of 'millrace run'; 202 when it is kept,
                                 503 while there is no room for more, see --memory
  GET    /calls/THREAD/ID        200 and its result; 204 if it is pending, also after
                                 ?wait=30s; 404 if there is no such call; 410 if its
                                 thread has moved away. A result is kept for a day; one
                                 of more than 1 KiB for ten minutes after it was read,
                                 and then a text says how large it was
  DELETE /calls/THREAD/ID        cancels it
  GET    /calls                  calls that this process remembers, ?thread=ID&state=open if you like;
                                 50 unless ?limit= says otherwise, up to 500, and the next ones
                                 ?after= what "next" says
  DELETE /threads/THREAD         closes a thread and resolves its calls
  GET    /calls/THREAD/ID/state  where it stands, and what its user is asked; at the next change
                                 after ?after=VERSION&wait=30s
  POST   /calls/THREAD/ID/answers  {"prompt": NUMBER, "selected"}: the answer; null dismisses
  GET    /threads/THREAD/subscriptions  open subscriptions of calls without a conversation
  GET    /calls/THREAD/ID/events the last events of one, up to 100; at the next one after
                                 ?after=NUMBER&wait=30s. DELETE ends it
  GET    /threads/THREAD/tools   what a thread is offered
  POST   /mcp                    the same for clients of MCP, the Model Context Protocol: the
                                 tools, with tasks; see also 'millrace mcp'
  GET    /quarantine             what the program could not handle; see 'millrace durable'
  GET    /stats                  what happened since this process began

With --model it holds conversations as well:

  POST   /sessions                   {"id", "user_id", "images", "instructions", "model"}: opens one; 201
  GET    /sessions                   the sessions, with the tokens that their models have read and written;
                                     pages as of /calls; GET /threads has their children too
  POST   /threads/THREAD/messages    {"text", "key"}: what the user says; 202 when it is kept. With a
                                     key of 1 to 256 bytes it can be said again: 202, and nothing changes
  GET    /threads/THREAD/messages    the history ?from=N on; waits for more within ?wait=30s
  GET    /threads/THREAD/events      server-sent events ?from=N on: messages, and what the model
                                     writes while it does; Last-Event-ID goes on behind that message
  POST   /agui                       a run of AG-UI: says its last message, and shows the turn
  POST   /threads/THREAD/interrupt   stops what is going on
  GET    /threads/THREAD/prompts     what the user is asked
  POST   /threads/THREAD/answers     {"id", "selected"}: the user's choice; null dismisses
  POST   /sessions/THREAD/migrate    {"to"}: moves it to another runtime; see 'millrace migrate'

The model of --model script:FILE gives the replies of a JSON array, in order:

  [{"text": "I count.", "calls": [{"operation": "tick", "arguments": {"ms": 500}}]},
   {"text": "Noted.", "times": 100}]

With --nats several processes share the calls: each can make and read all of them, a
result may be posted to any of them, and if one is killed another goes on. They need the
same callback.key: copy it from one --state folder to the others. Give all of them a
--public address that reaches whichever is there, or the result of a call waits until the
process that made it is back. Only the process that runs a session knows what its user
is asked and has its events and lists: another one answers 503 to an answer of the user
and to a request for events.

A request has the token of the API, 'Authorization: Bearer TOKEN', and a body that is JSON
has the Content-Type application/json. The token is made at the first start and kept in
DIR/api.token, and DIR/api.headers has both headers:

  curl -H @DIR/api.headers -d '{"group_id": "t1", "operation": "now"}' localhost:7341/calls

Pages in a browser are refused, and so is a Host that is no address of the API: name others
with --api-host. The API listens on this host alone unless told otherwise, which takes a
token of your own: --token-file. With --tokens users have tokens of their own, see the flag: each owner has its
own threads, whatever they are called, and its tasks of MCP are in its thread mcp. It may have
all tools unless tools= has patterns of their names, in each of its lines. With --oidc-issuer users have those
of an authorization server, and clients are told at /.well-known/oauth-protected-resource/mcp where to get them. Nothing is encrypted without --api-tls-cert and --api-tls-key: put
a proxy in front of it then. The files of a certificate are read again when they have changed.
Tool servers post results to --listen, which has to stay the same, or to --public.

With --config flags may be in a file, which 'millrace check' explains and checks. At SIGHUP the file is
read again. If nothing is wrong with it, everything is stopped and started again in this process: what is
kept goes on, and requests that wait are cut off. If something is, that is said, and nothing changes; if it is
found only at the start, everything is started once more as it was. If the file of
--tokens has changed, and that of --config has not, nothing is read but the tokens, and only requests with
those that are revoked are cut off.

A tool server of --tool-command is started with this process, started again when it ends, and
ended with it. No shell is involved, but quotes and backslashes mean what they do in one:

  --tool-command 'millrace tool --leash --port {port} --state /var/lib/clock clock'
  --tool-command 'http://127.0.0.1:9000 LOG=debug ./search --listen {host}:{port}'

The tools of an MCP server are tools like others. It is a program that speaks MCP on its standard
input and output, with variables for it in front, or the URL of a server of Streamable HTTP; name=
before either, not in capitals, names it and begins the names of its tools:

  --mcp 'npx -y @modelcontextprotocol/server-filesystem /srv/files'
  --mcp 'search=KEY=@/etc/search.key search-mcp'
  --mcp search=https://mcp.example/mcp --mcp-header search=Authorization=@/etc/search.header

An MCP server may want users to authorize the access to it. They are asked then, and come back at /mcp/ of --public.
This program becomes a client of the authorization server by itself, or is the one of --mcp-client.

A program is stopped with --mcp-idle NAME=10m when nobody has used it for so long, and is started again when somebody does. With --mcp-per-user NAME
each user has one, which sees nothing of the others': what it keeps is in a folder of its own.

With --mcp-pin NAME a tool of the MCP server of that name is refused once it is another one than when it was first seen.

A program has few variables of this process's environment, and none that holds a secret.

What it prints is on standard error. Its environment is that of this process, but for the key of
a model. On Linux it is killed when this process is; on other systems, and if it starts programs
itself, it has to end when its standard input does, as 'millrace tool --leash'.

`

// stopWithin limits the time in which a runtime has to stop.
const stopWithin = 15 * time.Second

// serveFlags are the flags of serve.
type serveFlags struct {
	*flag.FlagSet
	config                               *string
	tools                                toolFlags
	servers                              mcpFlags
	kept                                 historyFlags
	keep                                 keepFor
	listen, public, address              *string
	watch, backups, tokenFile, migration *string
	models                               modelFlags
	tokens                               *string
	users                                users
	oidc                                 oidcFlags
	configSum                            [sha256.Size]byte // of the file of --config
	apiHosts                             urls
	apiListener                          net.Listener // of address, if it listens already
	served                               bool         // the API was served with these
	apiTLS, callbackTLS                  tlsFlags
	witness                              func() durable.Witness
	secrets                              signedBy
	status, otherKeys, leash             *bool
	memory                               *int64
	timeout                              *time.Duration
}

// parseServe parses the flags of serve and the file that they name. It returns an error if
// they are invalid. It makes nothing and connects nowhere.
func parseServe(args []string) (f *serveFlags, err error) {
	fs := flag.NewFlagSet("serve", flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprint(fs.Output(), serveUsage); fs.PrintDefaults() }
	f = &serveFlags{FlagSet: fs, secrets: signedBy{}}
	config, apply := configFlag(fs)
	f.config = config
	f.tools.add(fs)
	f.servers.add(fs)
	f.kept.add(fs, "`folder` of the key for callback URLs and, without --nats, of everything that is kept")
	f.listen = fs.String("listen", "127.0.0.1:7340", "`address` of the callback endpoint")
	f.public = fs.String("public", "", "`URL` at which tool servers reach the callback endpoint, if not that address")
	f.callbackTLS = tlsFlags{
		fs.String("callback-tls-cert", "", "`file` with the certificate chain of the callback endpoint, in PEM, which is encrypted then; read again when it has changed"),
		fs.String("callback-tls-key", "", "`file` with the key of --callback-tls-cert"),
	}
	f.address = fs.String("api", "127.0.0.1:7341", "`address` of the API")
	f.apiTLS = tlsFlags{
		fs.String("api-tls-cert", "", "`file` with the certificate chain of the API, in PEM, which is encrypted then; read again when it has changed"),
		fs.String("api-tls-key", "", "`file` with the key of --api-tls-cert"),
	}
	f.watch = fs.String("monitor", "", "`address` of /livez, /readyz and /metrics, for probes and Prometheus, and of /inspect/, a page that shows the flow while it runs, also for 'millrace inspect': without a token, so reachable for those only; none unless given")
	f.backups = fs.String("backups", "", "`folder` in which POST /backup at --monitor makes a backup of what is kept, each in a new folder: also without a token; see 'millrace durable backup'; none unless given")
	fs.Var(&f.apiHosts, "api-host", "a `name`, such as that of a proxy, that requests to the API may be addressed to, with or without a port; may be given more than once")
	f.tokenFile = fs.String("token-file", "", "`file` with the token of the API, in place of api.token in the --state folder")
	f.tokens = fs.String("tokens", "", "`file` with tokens of users besides, a line each: OWNER TOKEN [user=ID] [scopes=read,call,admin] [tools=PATTERN,...], where TOKEN is its SHA-256 in hexadecimal digits, the name of a file with it, or env:NAME; read again at SIGHUP")
	f.oidc.add(fs)
	f.witness = witnessFlag(fs)
	fs.Var(&f.keep, "keep-for", "how `long` steps are kept for 'millrace log show', and not only those since the last snapshots: a duration such as 72h, by the time of the history, or forever, which 'millrace log replay' of any step needs")
	f.models.add(fs)
	f.migration = fs.String("migration-key", "", "`file` with the key that runtimes have in common which move sessions between them; made if there is none")
	fs.Var(f.secrets, "secret", "`URL=FILE`: a tool server, as for --tool, and the whsec_ secrets, one to a line, that sign what passes between it and this; URL=env:NAME for a variable of the environment; may be given more than once")
	f.status = fs.Bool("ask-status", false, "ask the tool servers now and then whether they have a call still; they must have the extension /tool_call_status")
	f.otherKeys = fs.Bool("accept-other-keys", false, "go on with other keys than those the history was made with, which are lost: what is pending gets no results then")
	f.leash = fs.Bool("leash", false, "end when standard input is closed")
	f.memory = fs.Int64("memory", 256, "how many `MiB` may be in use before no new calls and sessions are taken; 0 is no limit")
	f.timeout = fs.Duration("timeout", 15*time.Minute, "how long a call may wait for its result, detours not counted")
	if err := parse(fs, args); err != nil {
		return nil, err
	}
	if text, err := os.ReadFile(*config); err == nil { // read first, so that a later change is noticed
		f.configSum = sha256.Sum256(text)
	}
	if err := apply(); err != nil {
		return nil, err
	}
	f.tools.others = len(f.servers.all)
	switch err := f.wrong(); {
	case err == nil:
		return f, nil
	case *config != "":
		return nil, fmt.Errorf("%s: %w", *config, err)
	default:
		return nil, misused(fs, "%v", err)
	}
}

// wrong returns an error if the flags are invalid.
func (f *serveFlags) wrong() error {
	switch {
	case *f.kept.state == "":
		return errors.New("no --state folder")
	case f.kept.wrong() != nil:
		return f.kept.wrong()
	case f.tools.check() != nil:
		return f.tools.check()
	case f.NArg() > 0:
		return fmt.Errorf("what is %s?", strings.Join(f.Args(), " "))
	case *f.memory < 0:
		return errors.New("--memory must not be negative")
	case *f.memory > math.MaxInt64>>20:
		return errors.New("--memory must be a number of MiB that a computer can have; 0 is no limit")
	case *f.timeout <= 0:
		return errors.New("--timeout must be positive")
	case *f.backups != "" && *f.watch == "":
		return errors.New("--backups needs --monitor, where backups are asked for")
	case f.callbackTLS.given() && *f.public == "":
		return errors.New("--callback-tls-cert needs --public, the https URL for which the certificate is")
	}
	if _, err := f.models.specs(); err != nil {
		return err
	}
	if err := f.oidc.wrong(*f.address); err != nil {
		return err
	}
	if err := f.apiTLS.check(); err != nil {
		return fmt.Errorf("--api-tls-cert: %w", err)
	}
	if err := f.callbackTLS.check(); err != nil {
		return fmt.Errorf("--callback-tls-cert: %w", err)
	}
	return nil
}

// serve runs until ctx ends. When it is signaled to reload, it restarts with the new content of its file.
func serve(ctx context.Context, args []string) error {
	f, err := parseServe(args)
	if err != nil {
		return err
	}
	if *f.leash {
		ctx = leashed(ctx)
	}
	told := make(chan os.Signal, 1)
	if *f.config != "" || *f.tokens != "" {
		signal.Notify(told, syscall.SIGHUP)
		defer signal.Stop(told)
	}
	return serveAgain(ctx, told, args, f)
}

// serve runs until ctx ends.
func (f *serveFlags) serve(ctx context.Context) error {
	if *f.backups != "" {
		var err error
		if *f.backups, err = backupsIn(*f.backups); err != nil {
			return err
		}
	}
	history, err := f.kept.opener(f.FlagSet)
	if err != nil {
		return err
	}
	token, err := apiToken(f.FlagSet, *f.address, *f.tokenFile, *f.kept.state)
	if err != nil {
		return err
	}
	keys := findKeys(*f.kept.state, *f.migration)
	secret, err := callbackKey(*f.kept.state, *f.otherKeys)
	if err != nil {
		return err
	}
	answers, err := f.models.open()
	if err != nil {
		return err
	}
	var migrationKey []byte
	if *f.migration != "" {
		shared, err := keyOf(*f.migration)
		if err != nil {
			return err
		}
		migrationKey = shared[:]
	}
	user := newAPIUser()
	sealer, err := host.SealerOf(secret)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	opts := host.Options{
		PublicURL: *f.public, Sealer: sealer, Logger: logger,
		Surface: user, Model: answers, MigrationKey: migrationKey,
		Secrets: f.secrets, AskStatus: *f.status,
		Timeouts: host.Timeouts{Call: *f.timeout}, Bounds: host.Bounds{Memory: *f.memory << 20}, OtherKeys: *f.otherKeys,
		State: &durable.Options{
			Name: *f.kept.name, Log: history, Partitions: f.kept.divided(), KeepFor: time.Duration(f.keep), Witness: f.witness(), Logger: logger,
			Flow: dataflow.Options{Count: *f.watch != ""}, // costs a nanosecond or two per element, while a call costs a sync of the disk
		},
	}
	if f.users.file != nil {
		opts.Permits = f.users.file.permits
	}
	if err := f.tools.set(&opts, *f.kept.state); err != nil {
		return err
	}
	if opts.Listener, err = f.callbackTLS.listen(*f.listen, logger); err != nil {
		return fmt.Errorf("callback endpoint: %w", err)
	}
	mcp, err := f.servers.open(ctx, &opts, *f.kept.state, f.tools.networks, logger)
	if err != nil {
		opts.Listener.Close()
		return err
	}
	defer mcp.close()
	starting, cancelStart := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelStart()
	started := context.AfterFunc(ctx, cancelStart) // it waits for NATS servers that are down
	rt, err := host.Start(starting, opts)
	started()
	if err != nil {
		opts.Listener.Close()
		if ctx.Err() != nil {
			return nil
		}
		return keys.advise(err)
	}
	mcp.serve(rt.Handler())
	for _, p := range rt.Problems() {
		fmt.Fprintf(stderr, "millrace serve: %v\n", p)
	}
	fmt.Fprintf(stderr, "millrace serve: %s\n", whereToken(*f.tokenFile, *f.kept.state))
	guard := f.users.guard(token, f.apiURL(), f.apiHosts)
	serving, cancel := untilEnded(ctx, rt)
	defer cancel()
	if *f.watch != "" {
		stop, err := serveMonitor(watched{rt, serving, mcp.note}, *f.watch, *f.backups)
		if err != nil {
			return ended(ctx, rt, err)
		}
		defer stop()
	}
	front, err := mcpAt(rt, secret, f.apiHosts, logger)
	if err != nil {
		return ended(ctx, rt, err)
	}
	defer context.AfterFunc(serving, front.Close)()
	return ended(ctx, rt, f.serveAPI(serving, api{rt: rt, user: user, token: guard.Token, note: mcp.note}, front, guard, token, logger))
}

// untilEnded returns a context that ends with ctx, or when the runtime can do nothing more.
func untilEnded(ctx context.Context, rt *host.Runtime) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-rt.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// ended stops a runtime and returns the reason why it has ended, unless it was told to stop.
func ended(ctx context.Context, rt *host.Runtime, err error) error {
	failed := rt.Err()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	stopped := rt.Stop(stopping)
	if failed != nil {
		return errors.Join(err, fmt.Errorf("the flow has ended, and nothing more is done: %w", failed))
	}
	return errors.Join(err, stopped)
}
