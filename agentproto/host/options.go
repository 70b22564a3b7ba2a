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
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
)

// Options are the settings of a [Runtime]. Only Toolsets, Commands or Local are needed.
type Options struct {
	// Toolsets are the base URLs of the tool servers, such as
	// http://127.0.0.1:8080. Each is asked for its manifest when the runtime starts, and
	// when a session begins.
	Toolsets []string
	// Commands are tool servers that the runtime starts, and ends with it, in addition to
	// Toolsets.
	Commands []Command
	// Local are tool servers that are handlers of this process, by base URLs that have a scheme and a host and no
	// more, such as http://clock.invalid, in addition to Toolsets. Requests to them never reach a
	// network. Sessions and callback URLs refer to a tool server by its URL, so it has to stay.
	// What such a tool server posts to callback URLs can be given to [Runtime.Handler] in the same way.
	Local map[string]http.Handler

	// ListenAddr is where the callback endpoint listens. Empty means a free port
	// of 127.0.0.1. It is ignored if Listener is set or External is true.
	ListenAddr string
	// Listener, if not nil, is listened on instead. The runtime closes it.
	Listener net.Listener
	// External says that the caller serves [Runtime.Handler] itself. PublicURL is
	// required then.
	External bool
	// PublicURL is the address under which tool servers reach the callback
	// endpoint, with or without a path. Empty means http:// and the address that is
	// listened on, which is right for tool servers on the same host only.
	PublicURL string
	// Pages, if not nil, serves what is below the public URL, or below the root, and not the runtime's: pages to which
	// users come in a browser, such as those of tool servers of this process. It gets paths without that of the public URL.
	Pages http.Handler

	// AllowOrigins are origins, such as https://tools.example, that a manifest's
	// endpoint or a prompt's response_url may have besides the origin of the tool
	// server itself. Anything else is refused: requests with the conversation's
	// content would go there.
	AllowOrigins []string

	// ToolsetOrigins are the same for single tool servers, by their base URLs as in Toolsets: what one may
	// name, the others may not.
	ToolsetOrigins map[string][]string

	// AllowNetworks are networks that tool servers may be in besides public ones, such as
	// 10.0.0.0/8. What an address is judged by is the connection that is made, whatever a
	// name resolved to before. Without this, a name must resolve to a public address; an
	// address or localhost that is written in Toolsets or AllowOrigins is good as it is,
	// and this machine is where PublicURL, too, is an address of it or localhost.
	AllowNetworks []netip.Prefix

	// AllowPlainHTTP lets requests that are not encrypted go to public addresses. Without it http is for
	// this machine, for AllowNetworks, and for private addresses that are written in Toolsets or
	// AllowOrigins.
	AllowPlainHTTP bool

	// Secrets are what the runtime shares with tool servers, by their base URLs as in
	// Toolsets: one secret or, while it is being changed, several, each "whsec_" and at
	// least 24 bytes in base64 as of Standard Webhooks. Everything that is posted to such
	// a tool server is signed with all of them. What it posts has to be signed with one of
	// them, not more than five minutes ago; the rest is refused with 401 and resolves no
	// call. Without a secret, who knows a callback URL can use it.
	Secrets map[string][]string

	// Headers are what requests to tool servers have besides the runtime's own, such as an
	// Authorization, by their base URLs as in Toolsets. They are sent with everything: the
	// request for the manifest, invocations, notifications and answers, but only to the
	// origin of the tool server itself and to AllowOrigins, and to no other tool server.
	// Redirects are not followed. No log and no error contains a value.
	Headers map[string]http.Header

	// Model answers in conversations: see [Runtime.OpenSession]. A [conversation.Models] is several. Nil means that there are
	// none, and that somebody else has a loop that makes calls. What is kept with a Model
	// needs one when it is started again.
	Model conversation.Model
	// Conversation bounds what a thread does. Its Retain and Idle hold for calls and their
	// subscriptions as well, whether there are conversations or not: see
	// [agentproto.ProgramOptions].
	Conversation conversation.Limits

	// Permits reports whether a session may have a tool, by its name. One that it may not have is not offered to it, and a
	// call of it is resolved as that of a tool that there is not. It is asked each time, by any number of goroutines. Nil
	// permits all.
	Permits func(session, tool string) bool

	// Surface shows authorizations and choices to the user. Nil means a terminal:
	// [NewTerminal] of standard input and standard error.
	Surface Surface

	// Limits bound the messages of tool servers. Zero means the defaults of
	// agentproto. Limits.Bytes bounds results, with images or without; zero means 8 MiB and
	// 1 MiB. Other messages have [Bounds].Sizes.
	Limits agentproto.Limits

	// Timeouts bound everything that waits. Zero means the documented defaults.
	Timeouts Timeouts

	// Bounds are how much is taken in and remembered. Zero means the documented defaults.
	Bounds Bounds

	// AskStatus has the tool server of a call that it acknowledged be asked, by the
	// extension /tool_call_status, whether it has the call still: when the runtime was
	// started again, and from time to time, see [Timeouts].Status. A call or subscription
	// that it does not have, or about which it answers 4xx or nonsense, is ended with an
	// error; when it does not answer or fails, the runtime goes on waiting. It is for tool
	// servers that have the extension: others answer 404. See doc/protocol.md §9.4.
	AskStatus bool

	// Concurrency is how many requests are in flight to one tool server at once.
	// Zero means 256. A server that hangs holds up its own calls only.
	Concurrency int

	// State says where calls are kept, so that they survive this process: with it, a
	// call that was made and a callback that was answered 200 are not lost. It needs a
	// Sealer whose key survives as well, and a PublicURL or ListenAddr that stays. Nil
	// keeps calls in memory.
	//
	// Sessions are divided between its Partitions. Zero means one, which is fastest on one disk; on servers that
	// several processes share, have some for each process that there may ever be. Their number is fixed
	// when the history is made.
	//
	// After a restart calls are posted again whose acknowledgement was not kept, and
	// [Runtime.Results] and the surface may be told again what they were told before.
	State *durable.Options

	// Recorder, if not nil, writes the history of a runtime that keeps its calls in memory, so that a test
	// can make its steps again with [Build] and package sim. It has what callers, users and tools have said, in
	// the clear. It is an error to have a State as well, which keeps a history anyway. Close the recorder when the
	// runtime has stopped.
	Recorder *dataflow.Recorder

	// Sealer makes callback URLs unforgeable. Nil means [NewSealer]: a key of this
	// run's own.
	Sealer Sealer

	// MigrationKey is what runtimes have in common that move sessions between them, at
	// least 32 random bytes: see [Runtime.Migrate]. Who has it can read and make sessions.
	// Nil means that no session leaves or comes. Sessions come in at PublicURL, which is what
	// other runtimes have to be told as it is here; toolsets are paired by their names.
	MigrationKey []byte

	// OtherKeys accepts a Sealer and a MigrationKey that are not those that the State was made
	// with. Without it they are refused with [ErrOtherKey], because what is pending would be
	// lost: results that come to callback URLs of before are refused, and the calls end
	// by their timeouts. A Sealer that opens what the old key sealed is not another key. The
	// new keys are the history's from then on.
	OtherKeys bool

	// TLS is for private certificate authorities and client certificates. Nil means
	// the system's authorities. Versions before 1.2 are never used.
	TLS *tls.Config

	// DialContext connects to tool servers in place of a [net.Dialer] that refuses what
	// AllowNetworks does not allow: it has to judge addresses itself. Proxies of the
	// environment are never used.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)

	// Tracer makes spans of what happens to calls. Nil means none. A span of a call is sent to tool
	// servers with the headers traceparent and tracestate of W3C Trace Context, and is part of the call's
	// state and of its callback URL. A callback is part of the trace of its call, whatever its own headers say.
	Tracer agentproto.Tracer
	// Logger is where the runtime logs. Nil means [slog.Default]. Identifiers are
	// quoted, and the secret parts of URLs and the content of messages are left out.
	Logger *slog.Logger
}

// Timeouts are how long a [Runtime] waits for what. The zero value of each field
// is the default that its comment names; a negative duration is not useful.
type Timeouts struct {
	// Connect is for connecting to a tool server, TLS included. Zero means 5 s.
	Connect time.Duration
	// Ack is how long a tool server may take to acknowledge an invocation. Zero
	// means 15 s. After it the call is posted again: whether the server has it is
	// not known.
	Ack time.Duration
	// Retry holds the pauses before the second and every later attempt to deliver
	// an invocation or an answer, each shortened or lengthened at random by up to
	// half. Nil means 0.5, 1, 2 and 4 s; empty means one attempt.
	Retry []time.Duration
	// Dispatch is how long all attempts of one invocation may take together. Zero
	// means 30 s. A tool server's Retry-After is honoured within it.
	Dispatch time.Duration

	// Discovery is for fetching a manifest. Zero means 10 s. A session that begins waits
	// that long for a server that is silent, and the next ones a tenth of it, until the
	// server answers again.
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
	// Callback is how long a callback URL stays valid beyond the lifetime of its
	// call: for detours, during which the lifetime stands still, and for a tool's
	// retries. Zero means 6 days.
	Callback time.Duration

	// Answer is for one attempt to deliver the user's choice. Zero means 10 s.
	Answer time.Duration
	// Notify is for one notification: a cancelled call or a closed thread. It is
	// sent once. Zero means 3 s.
	Notify time.Duration

	// Status is how often a tool server is asked whether it has a call still, where
	// [Options].AskStatus is set. Zero means 5 minutes. Each time it may take as long as for
	// a notification.
	Status time.Duration
	// Migrate is how long one tool server may take to hand a session over. Zero means 10
	// minutes.
	Migrate time.Duration
	// Transfer is for one message between runtimes of which one moves a session to the
	// other. Zero means a minute.
	Transfer time.Duration

	// Accept is how long a callback may wait to be taken in before it is answered
	// 503. Zero means 5 s.
	Accept time.Duration
	// ReadHeader, Read and Idle are those of the callback endpoint's
	// [net/http.Server]. Zero means 5 s, 30 s and 60 s.
	ReadHeader, Read, Idle time.Duration
}

// Bounds are how much a [Runtime] takes in and remembers of what others send, so that no
// tool server can exhaust it (threats 5 and 34 of doc/threats.md). The zero value of each
// field is the default that its comment names. Of several processes that share the calls,
// each has bounds of its own.
type Bounds struct {
	// Sessions is how many sessions' tools are remembered. Zero means 4096. See
	// [Runtime.ToolsOf] for what becomes of the others.
	Sessions int

	// Memory is how many bytes of the process may be in use, as the garbage collector finds. When nine
	// tenths are, no calls are made and no sessions opened: [ErrFull]. What was taken in before goes on, and
	// callbacks are taken. Zero is no limit: other parts of the process use memory too. For a process that is
	// nothing but a runtime, 256 MiB is a good value.
	Memory int64

	// Rates are how many bytes a second are taken in. What exceeds them is put off with 503 and
	// the time after which there is room. An event whose tool server has no ids for its messages
	// is left out instead, since such a server does not send it again; the next one tells that.
	Rates Rates
	// Sizes are how many bytes messages may have, by type.
	Sizes Sizes
	// Bodies is how many bytes of messages may be in memory that are being read or taken in. One
	// tool server may have a quarter of it. Zero means 64 MiB. What exceeds it waits for a while
	// and is put off with 503 then.
	Bodies int64
	// Waiting is how many callbacks of one thread may wait to be taken in. Zero means
	// 256. What exceeds it is put off with 503.
	Waiting int
	// Connections is how many connections the callback endpoint keeps open for one
	// address, or for one /64 network of IPv6. Zero means 4096. For one that exceeds it,
	// the one is closed that has been idle for the longest time; if all are in use, the
	// new one is. All addresses together may have four times as many. It is also the bound
	// for a proxy in front of the endpoint, and does not hold for an endpoint that is External.
	Connections int

	// Subscriptions is how many subscriptions of one thread may be open. Zero means 64.
	// A call that would open another is resolved with an error, and cancelled.
	Subscriptions int
	// Views is how many views one thread may have, and ViewBytes how large their
	// contents may be together. Zero means 32 and 1 MiB. What exceeds it is refused.
	Views, ViewBytes int
	// ViewThreads is for how many threads views are remembered. Zero means 4096. Those
	// that were not updated for the longest time are forgotten.
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
