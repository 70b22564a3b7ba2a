package conform

// The control interface of a runtime under test.
//
// A runtime is a program that talks to tool servers, a model and a user. A conformance
// run plays all three, so it needs to say what the model and the user do, and to see what
// they would see. That is this interface: JSON over HTTP on loopback, described in
// doc/control.md. It is for tests, and no part of the protocol.

// The parts of the control interface that a runtime may lack. One that does says so in
// its [Hello], and cases that need the part are not applicable to it.
const (
	PartState         = "state"         // calls survive a kill: RuntimeConfig.State
	PartChildren      = "children"      // POST /threads/{t}/children
	PartText          = "text"          // POST /threads/{t}/text, user text that interrupts
	PartInterrupt     = "interrupt"     // POST /threads/{t}/interrupt
	PartImages        = "images"        // models that take images
	PartDisplay       = "display"       // Message.Display
	PartNotices       = "notices"       // messages of the role notice
	PartViews         = "views"         // Thread.Views
	PartSubscriptions = "subscriptions" // Thread.Subscriptions and messages of the role event
	PartWebhookID     = "webhook_id"    // messages are told apart by the header webhook-id
	PartAlive         = "alive"         // POST {base}/tool_call_status after a restart
	PartMigrate       = "migrate"       // POST /sessions/{id}/migrate
	PartStats         = "stats"         // GET /stats
	PartLimits        = "limits"        // RuntimeConfig.Limits
	PartClock         = "clock"         // PUT /clock and RuntimeConfig.ClockAheadMS
	PartLifetime      = "lifetime"      // calls end by themselves: the timeouts of calls and detours
)

// A RuntimeConfig is the file that a runtime under test is started with, as the last
// argument of its command. The same file is used when it is started again after a kill.
type RuntimeConfig struct {
	// Toolsets are the tool servers.
	Toolsets []ToolsetConfig `json:"toolsets"`
	// AllowOrigins are origins, such as http://127.0.0.1:4000, that an endpoint or a
	// response_url may have besides the origin of its tool server.
	AllowOrigins []string `json:"allow_origins,omitempty"`
	// CallbackListen is the host and port at which callbacks are taken in. It is the same
	// after a restart. Tool servers are on the same host.
	CallbackListen string `json:"callback_listen"`
	// State is an existing folder for everything that has to survive a kill. Empty means
	// that nothing has to.
	State string `json:"state,omitempty"`
	// TimeoutsMS bounds what waits, so that cases do not take long.
	TimeoutsMS RuntimeTimeouts `json:"timeouts_ms"`
	// Limits bounds what is kept.
	Limits RuntimeLimits `json:"limits"`
	// ClockAheadMS is how far the runtime's clock is ahead of the machine's when it starts,
	// in milliseconds; negative is behind. It is the clock that tells the date: what is
	// waited for while the runtime runs does not depend on it.
	ClockAheadMS int64 `json:"clock_ahead_ms,omitempty"`
	// AskAlive has the runtime ask tool servers after a restart whether its pending calls
	// are alive: the extension tool_call_status.
	AskAlive bool `json:"ask_alive,omitempty"`
	// MigrateListen is the host and port at which sessions of other runtimes are taken in.
	// Empty means that none are.
	MigrateListen string `json:"migrate_listen,omitempty"`
	// MigrateSecret is what runtimes that exchange sessions have in common.
	MigrateSecret string `json:"migrate_secret,omitempty"`
}

// A ToolsetConfig is one tool server. In a migration those of one ID belong together.
type ToolsetConfig struct {
	ID  string `json:"id"`
	URL string `json:"url"`
}

// RuntimeTimeouts are in milliseconds. A zero one is the runtime's own.
type RuntimeTimeouts struct {
	Connect    int64   `json:"connect,omitempty"`
	Ack        int64   `json:"ack,omitempty"`         // for the acknowledgement of an invocation
	Retry      []int64 `json:"retry,omitempty"`       // pauses before the second and each later attempt of a message
	Dispatch   int64   `json:"dispatch,omitempty"`    // for all attempts of an invocation together
	Discovery  int64   `json:"discovery,omitempty"`   // for a manifest
	Call       int64   `json:"call,omitempty"`        // the lifetime of a call
	LongCall   int64   `json:"long_call,omitempty"`   // the same for a tool annotated longRunning
	OAuth      int64   `json:"oauth,omitempty"`       // for the user to authorize
	Choice     int64   `json:"choice,omitempty"`      // for the user to choose
	Callback   int64   `json:"callback,omitempty"`    // how long a callback URL is good beyond the lifetime of its call
	Answer     int64   `json:"answer,omitempty"`      // for one attempt to deliver the choice
	Notify     int64   `json:"notify,omitempty"`      // for a notification
	Migrate    int64   `json:"migrate,omitempty"`     // for one /migrate
	ReadHeader int64   `json:"read_header,omitempty"` // for the header of a callback
	Read       int64   `json:"read,omitempty"`        // for a whole callback
}

// RuntimeLimits bound what is kept. A zero one is the runtime's own.
type RuntimeLimits struct {
	BodyBytes     int64 `json:"body_bytes,omitempty"`    // of a callback
	Subscriptions int   `json:"subscriptions,omitempty"` // open ones of a thread
	Views         int   `json:"views,omitempty"`         // types of a thread
}

// A Hello is the line that a runtime prints when it is ready.
type Hello struct {
	// Control is the base URL of its control interface.
	Control string `json:"control"`
	// Token is what each request to it has as a bearer token. Empty means nothing.
	Token string `json:"token,omitempty"`
	// Migrate is what another runtime is given to migrate sessions to this one.
	Migrate string `json:"migrate,omitempty"`
	// EventTool is the name under which the model is shown events of subscriptions.
	EventTool string `json:"event_tool,omitempty"`
	// Lacks are the parts that the runtime does not have.
	Lacks []string `json:"lacks,omitempty"`
}

// A Clock sets the clock that tells the date, as somebody might that of the machine, so
// far ahead of the machine's: PUT /clock.
type Clock struct {
	AheadMS int64 `json:"ahead_ms"`
}

// A SessionRequest opens a session, or finds the one that is open: POST /sessions. Its ID
// is that of its root thread.
type SessionRequest struct {
	ID     string `json:"id"`
	UserID string `json:"user_id,omitempty"`
	// Images says that the model takes images.
	Images bool `json:"images"`
}

// A Session is the answer to a [SessionRequest].
type Session struct {
	// Tools are the names of the tools that are offered to the model.
	Tools []string `json:"tools"`
	// Problems say why a toolset, or one of its tools, is not offered.
	Problems []ToolsetProblem `json:"problems"`
}

// A ToolsetProblem is why a toolset, or one of its tools, is not offered.
type ToolsetProblem struct {
	Toolset string `json:"toolset"` // its URL as configured
	Tool    string `json:"tool,omitempty"`
	Error   string `json:"error"`
}

// A ChildRequest opens a child of a thread: POST /threads/{t}/children.
type ChildRequest struct {
	ID string `json:"id"`
}

// A Turn is what the model says next: POST /threads/{t}/calls. The answer comes when the
// turn is in the history, and what is in the history survives a kill.
//
// The model says nothing else than its turns: whenever the runtime asks it otherwise, it
// ends its round with an empty message, which is not shown. For a turn the user says
// something first. Turns come when no call of the thread is pending.
type Turn struct {
	Text  string     `json:"text,omitempty"`
	Calls []TurnCall `json:"calls"`
}

// A TurnCall is a call that the model makes.
type TurnCall struct {
	ID        string `json:"id"`
	CallID    string `json:"call_id,omitempty"`
	Operation string `json:"operation"`
	// Arguments are what the model said, which need not be an object.
	Arguments any `json:"arguments"`
}

// A Text is what the user says: POST /threads/{t}/text. It interrupts pending calls.
type Text struct {
	Text string `json:"text"`
}

// An Answer is what the user does with a prompt: POST /threads/{t}/answers. It is
// answered 200 also when the prompt is not open any more, and has no effect then.
type Answer struct {
	// Prompt is the ID of the prompt.
	Prompt string `json:"prompt"`
	// Selected is an index into its choices, nil if the user dismissed it.
	Selected *int `json:"selected"`
}

// A Migration moves a session to another runtime: POST /sessions/{id}/migrate. The answer
// comes when it is there, with 200, or when the migration failed, with 502 and the reason.
type Migration struct {
	// To is the Migrate of the other's [Hello].
	To string `json:"to"`
}

// A Thread is what there is to see of one: GET /threads/{t}, 404 if there is none. It is
// there for a closed thread, too.
type Thread struct {
	ID       string   `json:"id"`
	Parent   string   `json:"parent,omitempty"`
	Children []string `json:"children,omitempty"`
	Closed   bool     `json:"closed,omitempty"`
	// History is what the model sees, the oldest first.
	History []Message `json:"history"`
	// Calls are those that have no result yet.
	Calls []PendingCall `json:"calls"`
	// Prompts are what the user is asked.
	Prompts []Prompt `json:"prompts"`
	// Views have the latest content of each type.
	Views []View `json:"views,omitempty"`
	// Subscriptions are those that are open.
	Subscriptions []Subscription `json:"subscriptions,omitempty"`
}

// The roles of a [Message].
const (
	RoleUser   = "user"
	RoleModel  = "model"
	RoleResult = "result" // of the call ID
	RoleEvent  = "event"  // of the subscription that the call ID opened
	RoleNotice = "notice" // the model is told that the call ID waits for an authorization
)

// A Message is one message of a thread as the model sees it.
type Message struct {
	Role  string     `json:"role"`
	ID    string     `json:"id,omitempty"`
	Text  string     `json:"text,omitempty"`
	Calls []TurnCall `json:"calls,omitempty"`
	// Content are the items of a result, in order. A result that is only text is one item.
	Content []Content `json:"content,omitempty"`
	// Display is what the user is shown of a result in place of its text, if anything.
	Display *Display `json:"display,omitempty"`
	// Final says that a subscription ended with this event.
	Final bool `json:"final,omitempty"`
}

// A Content is one item of a result: a text, or an image that the model is given.
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
	// State is waiting, oauth or choice. What is not accepted yet waits, too.
	State string `json:"state"`
}

// A Prompt is something that the user is asked for.
type Prompt struct {
	// ID is the runtime's own.
	ID   string `json:"id"`
	Kind string `json:"kind"` // oauth or choice
	Call string `json:"call"` // the ID of the call
	// AuthURL is where an authorization begins.
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

// A Subscription is an open one.
type Subscription struct {
	// Call is the ID of the call that opened it.
	Call      string `json:"call"`
	Operation string `json:"operation,omitempty"`
}

// RuntimeStats are what a runtime counted since it was started: GET /stats.
type RuntimeStats struct {
	Results    uint64 `json:"results"`    // calls resolved by a tool
	Failures   uint64 `json:"failures"`   // calls resolved otherwise
	Duplicates uint64 `json:"duplicates"` // dropped: a second result
	Late       uint64 `json:"late"`       // dropped: arrived after the call was resolved otherwise
	Dropped    uint64 `json:"dropped"`    // dropped: events of what is no open subscription
	Refused    uint64 `json:"refused"`    // callbacks answered 4xx
	Busy       uint64 `json:"busy"`       // callbacks answered 503
}
