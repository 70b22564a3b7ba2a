package host

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host/internal/callback"
	"github.com/millrace/millrace/agentproto/host/internal/peer"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
)

// Options are the settings of a [Runtime]. At least one of Toolsets, Commands and Local is required.
type Options struct {
	// Toolsets are the base URLs of the tool servers, such as http://127.0.0.1:8080. Each is asked for its manifest when the
	// runtime starts and when a session begins.
	Toolsets []string
	// Commands are tool servers that the runtime starts and ends itself, in addition to Toolsets.
	Commands []Command
	// Local are tool servers that are handlers in this process, in addition to Toolsets. The keys are base URLs that consist of a
	// scheme and a host only, such as http://clock.invalid. Requests to them never reach a network. Sessions and callback URLs
	// refer to a tool server by its URL, so it must not change. What such a tool server posts to callback URLs can be passed to
	// [Runtime.Handler] in the same way.
	Local map[string]http.Handler

	// ListenAddr is the address of the callback endpoint. Empty means a free port of 127.0.0.1. It is ignored if Listener is set
	// or External is true.
	ListenAddr string
	// Listener, if not nil, is used in place of ListenAddr. The runtime closes it.
	Listener net.Listener
	// External says that the caller serves [Runtime.Handler] itself. PublicURL is then required.
	External bool
	// PublicURL is the address under which tool servers reach the callback endpoint, with or without a path. Empty means http://
	// and the listener's address, which works only for tool servers on the same host.
	PublicURL string
	// Pages, if not nil, serves all requests below the public URL, or below the root, that are not for the runtime: pages for
	// users in a browser, such as those of tool servers in this process. The path of the public URL is removed from the paths it
	// gets.
	Pages http.Handler

	// AllowOrigins are origins, such as https://tools.example, that a manifest's endpoint or a prompt's response_url may have,
	// besides the origin of the tool server itself. Any other origin is refused, because requests to it would contain the
	// conversation's content.
	AllowOrigins []string

	// ToolsetOrigins are further such origins for single tool servers, by their base URLs as in Toolsets. Other tool servers may
	// not use them.
	ToolsetOrigins map[string][]string

	// AllowNetworks are networks that tool servers may be in besides public ones, such as 10.0.0.0/8. The address of the actual
	// connection is checked, whatever a name resolved to before. Without AllowNetworks a name must resolve to a public address.
	// Addresses and localhost are allowed if they are written in Toolsets, AllowOrigins or ToolsetOrigins; this machine is also
	// allowed if PublicURL is an address of it or localhost.
	AllowNetworks []netip.Prefix

	// AllowPlainHTTP allows unencrypted requests to public addresses. Without it, http is allowed only for this machine, for
	// AllowNetworks, and for private addresses written in Toolsets, AllowOrigins or ToolsetOrigins.
	AllowPlainHTTP bool

	// Secrets are the secrets that the runtime shares with tool servers, by their base URLs as in Toolsets. A tool server has one
	// secret or, during a change, several, each "whsec_" followed by at least 24 bytes in base64 as defined by Standard Webhooks.
	// Everything that is posted to such a tool server is signed with all of them. What it posts has to be signed with one of
	// them, at most five minutes ago; anything else is answered 401 and resolves no call. Without a secret, anyone who has a
	// callback URL can use it.
	Secrets map[string][]string

	// Headers are additional headers of requests to tool servers, such as an Authorization, by the servers' base URLs as in
	// Toolsets. They are sent with every request (manifest, invocations, notifications and answers), but only to the origin of
	// the tool server itself, to AllowOrigins and to its ToolsetOrigins, never to another tool server. Redirects are not followed.
	// No log and no error contains a value.
	Headers map[string]http.Header

	// Model answers in conversations: see [Runtime.OpenSession]. A [conversation.Models] holds several models. Nil means that the
	// runtime holds no conversations and the caller makes the calls. A State that was made with a Model can be started only with
	// one.
	Model conversation.Model
	// Conversation bounds the resources of a thread. Its Retain and Idle also apply to calls and their subscriptions, with or
	// without conversations: see [agentproto.ProgramOptions].
	Conversation conversation.Limits

	// Permits reports whether a session may use a tool, by the tool's name. A session is not offered a tool that it may not use,
	// and a call of it is resolved like that of an unknown tool. Permits is called each time, and must be safe for concurrent
	// use. Nil permits all tools.
	Permits func(session, tool string) bool

	// Surface shows authorizations and choices to the user. Nil means a [NewTerminal] on standard input and standard error.
	Surface Surface

	// Limits bound the messages of tool servers. Zero means the defaults of agentproto. Limits.Bytes bounds results with and
	// without images; its defaults are 8 MiB and 1 MiB. Other messages are bounded by [Bounds].Sizes.
	Limits agentproto.Limits

	// Timeouts bound every wait. Zero means the documented defaults.
	Timeouts Timeouts

	// Bounds limit what is accepted and remembered. Zero means the documented defaults.
	Bounds Bounds

	// AskStatus makes the runtime ask tool servers, by the extension /tool_call_status, whether they still have a call that they
	// acknowledged: after a restart of the runtime and at intervals, see [Timeouts].Status. A call or subscription that the
	// server does not have, or for which it answers 4xx or nonsense, is ended with an error. If the server does not answer or
	// fails, the runtime keeps waiting. AskStatus is for tool servers with the extension; others answer 404. See doc/protocol.md
	// §9.4.
	AskStatus bool

	// Concurrency is how many requests to one tool server may be in progress at once. Zero means 256. A server that hangs delays
	// only its own calls.
	Concurrency int

	// State says where calls are stored, so that they survive this process: a call that was made and a callback that was answered
	// 200 are then not lost. It needs a Sealer whose key survives as well, and a PublicURL or ListenAddr that does not change.
	// Nil keeps calls in memory.
	//
	// Sessions are divided among its Partitions. Zero means one, which is fastest on one disk. On servers that several processes
	// share, use some for each process that may ever run. The number is fixed when the history is created.
	//
	// After a restart, calls whose acknowledgement was not recorded are posted again, and [Runtime.Results] and the surface may
	// receive again what they received before.
	State *durable.Options

	// Recorder, if not nil, writes the history of a runtime that keeps its calls in memory, so that a test can repeat its steps
	// with [Build] and package sim. Package recordings makes one. The recording contains what callers, users and tools have
	// said, in the clear. A Recorder together with a State is an error, because a State keeps a history anyway. Close the
	// recorder after the runtime has stopped.
	Recorder *dataflow.Recorder

	// Sealer makes callback URLs unforgeable. Nil means [NewSealer], whose key lasts for this run.
	Sealer Sealer

	// MigrationKey is the secret shared by runtimes that move sessions between them, at least 32 random bytes: see
	// [Runtime.Migrate]. Anyone who has it can read and make sessions. Nil means that no session leaves or arrives. Sessions
	// arrive at PublicURL, which other runtimes must be given exactly as it is here. Toolsets are matched by their names.
	MigrationKey []byte

	// OtherKeys accepts a Sealer and a MigrationKey that differ from those that the State was made with. Without it they are
	// refused with [ErrOtherKey], because pending calls would be lost: results that arrive at old callback URLs are refused, and
	// the calls end by their timeouts. A Sealer that opens what the old key sealed does not count as different. From then on the
	// State has the new keys.
	OtherKeys bool

	// TLS is for private certificate authorities and client certificates. Nil means the system's authorities. TLS versions before
	// 1.2 are never used.
	TLS *tls.Config

	// DialContext connects to tool servers in place of a [net.Dialer] that refuses what AllowNetworks does not allow. It has to
	// check addresses itself. Proxies from the environment are never used.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)

	// Tracer makes spans for what happens to calls. Nil means none. The span of a call is sent to tool servers in the headers
	// traceparent and tracestate of W3C Trace Context, and is part of the call's state and of its callback URL. A callback
	// belongs to the trace of its call, whatever its own headers say.
	Tracer agentproto.Tracer
	// Logger receives the logs of the runtime. Nil means [slog.Default]. Identifiers are quoted; the secret parts of URLs and the
	// content of messages are not logged.
	Logger *slog.Logger
}

// Timeouts are the durations for which a [Runtime] waits. A zero field means the default that its comment names; a negative
// duration is not useful.
type Timeouts struct {
	// Connect is the timeout for connecting to a tool server, including TLS. Zero means 5 s.
	Connect time.Duration
	// Ack is how long a tool server may take to acknowledge an invocation. Zero means 15 s. After that the call is posted again,
	// because the runtime does not know whether the server has it.
	Ack time.Duration
	// Retry holds the pauses before the second and every later attempt to deliver an invocation or an answer. Each pause is
	// shortened or lengthened at random by up to half. Nil means 0.5, 1, 2 and 4 s; empty means one attempt.
	Retry []time.Duration
	// Dispatch is how long all attempts of one invocation may take together. Zero means 30 s. A tool server's Retry-After is
	// honored within it.
	Dispatch time.Duration

	// Discovery is the timeout for fetching a manifest. Zero means 10 s. A new session waits that long for a silent server, and
	// later sessions a tenth of it, until the server answers again.
	Discovery time.Duration

	// Call is how long a call may wait for its result, unless its request says
	// otherwise. Zero means 15 minutes.
	Call time.Duration
	// LongCall is the same for tools annotated longRunning. Zero means 24 hours.
	LongCall time.Duration
	// OAuth is how long the user may take to authorize a tool; then the call
	// resolves with an error. Zero means 10 minutes.
	OAuth time.Duration
	// Choice is how long the user may take to choose; then the prompt's default is
	// taken. Zero means 24 hours.
	Choice time.Duration
	// Callback is how long a callback URL stays valid after the lifetime of its call has ended: for detours, during which the
	// lifetime does not run, and for a tool's retries. Zero means 6 days. A URL is valid for longer than that while its call is
	// pending or has an open subscription.
	Callback time.Duration

	// Answer is the timeout for one attempt to deliver the user's choice. Zero means 10 s.
	Answer time.Duration
	// Notify is the timeout for one notification: a cancelled call or a closed thread. Notifications are sent once. Zero means 3 s.
	Notify time.Duration

	// Status is how often a tool server is asked whether it still has a call, with [Options].AskStatus. Zero means 5 minutes.
	// Each request may take as long as a notification.
	Status time.Duration
	// Migrate is how long one tool server may take to hand over a session. Zero means 10 minutes.
	Migrate time.Duration
	// Transfer is the timeout for one message between two runtimes during a migration. Zero means a minute.
	Transfer time.Duration

	// Accept is how long a callback may wait to be accepted before it is answered 503, and how long the search for a call or
	// the [Thread.Status] of a thread may wait for the flow. Zero means 5 s.
	Accept time.Duration
	// ReadHeader, Read and Idle are those of the callback endpoint's
	// [net/http.Server]. Zero means 5 s, 30 s and 60 s.
	ReadHeader, Read, Idle time.Duration
}

// Bounds limit what a [Runtime] accepts and remembers of what others send, so that no tool server can exhaust it (threats 5 and
// 34 of doc/threats.md). A zero field means the default that its comment names. If several processes share the calls, each has
// its own bounds.
type Bounds struct {
	// Sessions is the number of sessions whose tools are remembered. Zero means 4096. See [Runtime.ToolsOf] for what happens to
	// the others.
	Sessions int

	// Memory is how many bytes the process may use, as measured by the garbage collector. When nine tenths are used, calls and
	// sessions are refused with [ErrFull]. Earlier calls go on, and callbacks are accepted. Zero means no limit, because other
	// parts of the process use memory too. For a process that only runs a runtime, 256 MiB is a good value.
	Memory int64

	// Rates are how many bytes a second are accepted. Messages beyond them are answered 503 with the time after which they fit.
	// An event of a tool server that gives its messages no ids is dropped instead, because such a server does not send it again;
	// the next event says so.
	Rates Rates
	// Sizes are how many bytes a message may have, by type.
	Sizes Sizes
	// Bodies is how many bytes of messages that are being read or handled may be in memory. One tool server may use a quarter of
	// it. Zero means 64 MiB. Messages beyond it wait for a while and are then answered 503.
	Bodies int64
	// Waiting is how many callbacks of one thread may wait to be accepted. Zero means 256. Further ones are answered 503.
	Waiting int
	// Connections is how many connections the callback endpoint keeps open for one address, or for one /64 network of IPv6. Zero
	// means 4096. Beyond that, a new connection closes the one that has been idle for the longest time; if all are in use, the
	// new one is closed. All addresses together may have four times as many. The bound also applies to a proxy in front of the
	// endpoint, but not to an External endpoint.
	Connections int

	// Subscriptions is how many subscriptions of one thread may be open. Zero means 64. A call that would open another one is
	// resolved with an error, and cancelled.
	Subscriptions int
	// Views is how many views one thread may have, and ViewBytes the total size of their contents. Zero means 32 and 1 MiB.
	// Updates beyond them are refused.
	Views, ViewBytes int
	// ViewThreads is the number of threads whose views are remembered. Zero means 4096. Beyond that, the least recently updated
	// ones are forgotten.
	ViewThreads int
}

// withDefaults returns b with every zero replaced.
func (b Bounds) withDefaults(limits agentproto.Limits) Bounds {
	set := func(n *int, to int) {
		if *n == 0 {
			*n = to
		}
	}
	set(&b.Sessions, 4096)
	b.Sizes = b.Sizes.withDefaults(limits)
	if b.Bodies == 0 {
		b.Bodies = 64 << 20
	}
	set(&b.Waiting, 256)
	set(&b.Connections, 4096)
	set(&b.Subscriptions, 64)
	set(&b.Views, 32)
	set(&b.ViewBytes, 1<<20)
	set(&b.ViewThreads, 4096)
	return b
}

// withDefaults returns t with every zero replaced.
func (t Timeouts) withDefaults() Timeouts {
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	set(&t.Connect, 5*time.Second)
	set(&t.Ack, 15*time.Second)
	set(&t.Dispatch, 30*time.Second)
	set(&t.Discovery, 10*time.Second)
	set(&t.Call, 15*time.Minute)
	set(&t.LongCall, 24*time.Hour)
	set(&t.OAuth, 10*time.Minute)
	set(&t.Choice, 24*time.Hour)
	set(&t.Callback, 6*24*time.Hour)
	set(&t.Answer, 10*time.Second)
	set(&t.Notify, 3*time.Second)
	set(&t.Status, 5*time.Minute)
	set(&t.Migrate, 10*time.Minute)
	set(&t.Transfer, time.Minute)
	set(&t.Accept, 5*time.Second)
	set(&t.ReadHeader, 5*time.Second)
	set(&t.Read, 30*time.Second)
	set(&t.Idle, 60*time.Second)
	if t.Retry == nil {
		t.Retry = []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second}
	}
	return t
}

// withDefaults returns o with every zero replaced that has a constant default.
func (o Options) withDefaults() Options {
	o.Timeouts = o.Timeouts.withDefaults()
	o.Bounds = o.Bounds.withDefaults(o.Limits)
	o.Limits.Bytes = callback.Sizes(o.Bounds.Sizes).Most()
	if o.Concurrency == 0 {
		o.Concurrency = 256
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// Check returns an error if [Start] would refuse the options that concern tool servers and the public URL, whatever exists outside
// of this process. It starts nothing and connects to nothing.
func Check(opts Options) error {
	opts, err := opts.withDefaults().withCommands()
	if err != nil {
		return err
	}
	if err := checkPublic(opts.PublicURL); err != nil {
		return err
	}
	_, err = peer.New((&Runtime{opts: opts, log: opts.Logger}).peerConfig())
	return err
}
