package conform

// The control interface of a runtime under test.
//
// A runtime is a program that talks to tool servers, a model and a user. A conformance run plays
// all three, so it must be able to say what the model and the user do, and to see what they would
// see. This interface, JSON over HTTP on loopback, is described in doc/control.md. It is for tests,
// and not part of the protocol.

// The parts of the control interface that a runtime may lack. A runtime lists them in its [Hello],
// and cases that need a missing part are not applicable to it.
const (
	PartState         = "state"         // calls survive a kill: RuntimeConfig.State
	PartChildren      = "children"      // POST /threads/{t}/children
	PartText          = "text"          // POST /threads/{t}/text, user text that interrupts
	PartInterrupt     = "interrupt"     // POST /threads/{t}/interrupt
	PartImages        = "images"        // models that accept images
	PartDisplay       = "display"       // Message.Display
	PartNotices       = "notices"       // messages of the role notice
	PartViews         = "views"         // Thread.Views
	PartSubscriptions = "subscriptions" // Thread.Subscriptions and messages of the role event
	PartWebhookID     = "webhook_id"    // duplicate messages are recognized by the header webhook-id
	PartAlive         = "alive"         // POST {base}/tool_call_status after a restart
	PartMigrate       = "migrate"       // POST /sessions/{id}/migrate
	PartStats         = "stats"         // GET /stats
	PartLimits        = "limits"        // RuntimeConfig.Limits
	PartClock         = "clock"         // PUT /clock and RuntimeConfig.ClockAheadMS
	PartLifetime      = "lifetime"      // calls end by themselves: the timeouts of calls, authorizations and choices
)

// A RuntimeConfig is the content of the file that a runtime under test gets as the last argument of
// its command. A runtime that is started again after a kill gets the same file.
type RuntimeConfig struct {
	// Toolsets are the tool servers.
	Toolsets []ToolsetConfig `json:"toolsets"`
	// AllowOrigins are origins, such as http://127.0.0.1:4000, that an endpoint or a response_url
	// may have in addition to the origin of its tool server.
	AllowOrigins []string `json:"allow_origins,omitempty"`
	// CallbackListen is the host and port at which callbacks are received. It is the same after a
	// restart. Tool servers are on the same host.
	CallbackListen string `json:"callback_listen"`
	// State is an existing folder for everything that must survive a kill. Empty means that nothing
	// must.
	State string `json:"state,omitempty"`
	// TimeoutsMS limits waiting times, so that cases do not take long.
	TimeoutsMS RuntimeTimeouts `json:"timeouts_ms"`
	// Limits bounds what the runtime stores.
	Limits RuntimeLimits `json:"limits"`
	// ClockAheadMS is how far the runtime's clock is ahead of the machine's when it starts, in
	// milliseconds; negative means behind. It affects only the clock that tells the date, not the
	// measurement of durations while the runtime runs.
	ClockAheadMS int64 `json:"clock_ahead_ms,omitempty"`
	// AskAlive makes the runtime ask tool servers after a restart whether its pending calls are
	// alive: the extension tool_call_status.
	AskAlive bool `json:"ask_alive,omitempty"`
	// MigrateListen is the host and port at which sessions of other runtimes are received. Empty
	// means that none are.
	MigrateListen string `json:"migrate_listen,omitempty"`
	// MigrateSecret is shared by runtimes that exchange sessions.
	MigrateSecret string `json:"migrate_secret,omitempty"`
}

// A ToolsetConfig is one tool server. In a migration, the servers with the same ID correspond to
// each other.
type ToolsetConfig struct {
	ID  string `json:"id"`
	URL string `json:"url"`
}

// RuntimeTimeouts are in milliseconds. Zero means the runtime's own default.
type RuntimeTimeouts struct {
	Connect    int64   `json:"connect,omitempty"`
	Ack        int64   `json:"ack,omitempty"`         // for the acknowledgement of an invocation
	Retry      []int64 `json:"retry,omitempty"`       // pauses before the second and each later attempt to send a message
	Dispatch   int64   `json:"dispatch,omitempty"`    // for all attempts of an invocation together
	Discovery  int64   `json:"discovery,omitempty"`   // for a manifest
	Call       int64   `json:"call,omitempty"`        // the lifetime of a call
	LongCall   int64   `json:"long_call,omitempty"`   // the lifetime of a call of a tool annotated longRunning
	OAuth      int64   `json:"oauth,omitempty"`       // for the user to authorize
	Choice     int64   `json:"choice,omitempty"`      // for the user to choose
	Callback   int64   `json:"callback,omitempty"`    // how long a callback URL is valid after the lifetime of its call
	Answer     int64   `json:"answer,omitempty"`      // for one attempt to deliver a choice
	Notify     int64   `json:"notify,omitempty"`      // for a notification
	Migrate    int64   `json:"migrate,omitempty"`     // for one /migrate
	ReadHeader int64   `json:"read_header,omitempty"` // for the header of a callback
	Read       int64   `json:"read,omitempty"`        // for a whole callback
}

// RuntimeLimits bound what the runtime stores. Zero means the runtime's own default.
type RuntimeLimits struct {
	BodyBytes     int64 `json:"body_bytes,omitempty"`    // of a callback
	Subscriptions int   `json:"subscriptions,omitempty"` // open ones per thread
	Views         int   `json:"views,omitempty"`         // types per thread
}

// A Hello is the line that a runtime prints when it is ready.
type Hello struct {
	// Control is the base URL of its control interface.
	Control string `json:"control"`
	// Token is the bearer token of each request to it. Empty means that none is needed.
	Token string `json:"token,omitempty"`
	// Migrate is the address to give to another runtime for migrating sessions to this one.
	Migrate string `json:"migrate,omitempty"`
	// EventTool is the name under which events of subscriptions are shown to the model.
	EventTool string `json:"event_tool,omitempty"`
	// Lacks lists the parts that the runtime lacks.
	Lacks []string `json:"lacks,omitempty"`
}

// A Clock sets how far the clock that tells the date is ahead of the machine's, as if somebody had
// changed the machine's clock: PUT /clock.
type Clock struct {
	AheadMS int64 `json:"ahead_ms"`
}

// A SessionRequest opens a session, or finds it if it is open: POST /sessions. Its ID is that of
// its root thread.
type SessionRequest struct {
	ID     string `json:"id"`
	UserID string `json:"user_id,omitempty"`
	// Images says that the model accepts images.
	Images bool `json:"images"`
}

// A Session is the answer to a [SessionRequest].
type Session struct {
	// Tools are the names of the tools offered to the model.
	Tools []string `json:"tools"`
	// Problems say why a toolset, or one of its tools, is not offered.
	Problems []ToolsetProblem `json:"problems"`
}

// A ToolsetProblem says why a toolset, or one of its tools, is not offered.
type ToolsetProblem struct {
	Toolset string `json:"toolset"` // its URL as configured
	Tool    string `json:"tool,omitempty"`
	Error   string `json:"error"`
}

// A ChildRequest opens a child of a thread: POST /threads/{t}/children.
type ChildRequest struct {
	ID string `json:"id"`
}

// A Turn is what the model says next: POST /threads/{t}/calls. It is answered once the turn is in
// the history, and the history survives a kill.
//
// The model says nothing except its turns: if the runtime asks it at any other time, it ends its
// round with an empty message, which is not shown. The user says something before each turn. Turns
// are sent only while no call of the thread is pending.
type Turn struct {
	Text  string     `json:"text,omitempty"`
	Calls []TurnCall `json:"calls"`
}

// A TurnCall is a call that the model makes.
type TurnCall struct {
	ID        string `json:"id"`
	CallID    string `json:"call_id,omitempty"`
	Operation string `json:"operation"`
	// Arguments are the model's arguments, which need not be an object.
	Arguments any `json:"arguments"`
}

// A Text is what the user says: POST /threads/{t}/text. It interrupts pending calls.
type Text struct {
	Text string `json:"text"`
}

// An Answer is the user's reaction to a prompt: POST /threads/{t}/answers. It is answered 200 even
// if the prompt is no longer open; then it has no effect.
type Answer struct {
	// Prompt is the ID of the prompt.
	Prompt string `json:"prompt"`
	// Selected is an index into the prompt's choices, or nil if the user dismissed it.
	Selected *int `json:"selected"`
}

// A Migration moves a session to another runtime: POST /sessions/{id}/migrate. It is answered 200
// once the session is there, or 502 with the reason if the migration failed.
type Migration struct {
	// To is the Migrate of the other runtime's [Hello].
	To string `json:"to"`
}

// A Thread is the visible state of a thread: GET /threads/{t}, 404 if there is none. A closed
// thread is visible too.
type Thread struct {
	ID       string   `json:"id"`
	Parent   string   `json:"parent,omitempty"`
	Children []string `json:"children,omitempty"`
	Closed   bool     `json:"closed,omitempty"`
	// History is what the model sees, oldest first.
	History []Message `json:"history"`
	// Calls are the calls that have no result yet.
	Calls []PendingCall `json:"calls"`
	// Prompts are the open questions to the user.
	Prompts []Prompt `json:"prompts"`
	// Views contains the latest content of each type.
	Views []View `json:"views,omitempty"`
	// Subscriptions are the open subscriptions.
	Subscriptions []Subscription `json:"subscriptions,omitempty"`
}

// The roles of a [Message].
const (
	RoleUser   = "user"
	RoleModel  = "model"
	RoleResult = "result" // of the call ID
	RoleEvent  = "event"  // of the subscription that the call ID opened
	RoleNotice = "notice" // tells the model that the call ID waits for an authorization
)

// A Message is one message of a thread as the model sees it.
type Message struct {
	Role  string     `json:"role"`
	ID    string     `json:"id,omitempty"`
	Text  string     `json:"text,omitempty"`
	Calls []TurnCall `json:"calls,omitempty"`
	// Content contains the items of a result, in order. A result that is only text is one item.
	Content []Content `json:"content,omitempty"`
	// Display is what the user is shown of a result instead of its text, if anything.
	Display *Display `json:"display,omitempty"`
	// Final says that a subscription ended with this event.
	Final bool `json:"final,omitempty"`
}

// A Content is one item of a result: a text, or an image for the model.
type Content struct {
	Type      string `json:"type"` // text or image
	Text      string `json:"text,omitempty"`
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"` // base64
}

// A Display is one item of display_as.
type Display struct {
	Type  string `json:"type"` // text, diff or image
	Text  string `json:"text,omitempty"`
	Path  string `json:"path,omitempty"`
	Patch string `json:"patch,omitempty"`
}

// A PendingCall is a call without a result.
type PendingCall struct {
	ID        string `json:"id"`
	Operation string `json:"operation"`
	// State is waiting, oauth or choice. A call that is not accepted yet is waiting.
	State string `json:"state"`
}

// A Prompt is a question to the user.
type Prompt struct {
	// ID is assigned by the runtime.
	ID   string `json:"id"`
	Kind string `json:"kind"` // oauth or choice
	Call string `json:"call"` // the ID of the call
	// AuthURL is the address to start an authorization at.
	AuthURL string `json:"auth_url,omitempty"`
	// Text, Choices and Default are those of a choice.
	Text    string   `json:"text,omitempty"`
	Choices []string `json:"choices,omitempty"`
	Default int      `json:"default,omitempty"`
}

// A View is the latest content of a type of view.
type View struct {
	ViewType string `json:"view_type"`
	Content  any    `json:"content"`
}

// A Subscription is an open subscription.
type Subscription struct {
	// Call is the ID of the call that opened it.
	Call      string `json:"call"`
	Operation string `json:"operation,omitempty"`
}

// RuntimeStats are counters since the start of the runtime: GET /stats.
type RuntimeStats struct {
	Results    uint64 `json:"results"`    // calls resolved by a tool
	Failures   uint64 `json:"failures"`   // calls resolved otherwise
	Duplicates uint64 `json:"duplicates"` // dropped: a second result
	Late       uint64 `json:"late"`       // dropped: arrived after the call was resolved otherwise
	Dropped    uint64 `json:"dropped"`    // dropped: events without an open subscription
	Refused    uint64 `json:"refused"`    // callbacks answered 4xx
	Busy       uint64 `json:"busy"`       // callbacks answered 503
}
