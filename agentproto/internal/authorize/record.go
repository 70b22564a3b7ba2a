package authorize

import "time"

// A Key says whose token it is, among those of one runtime, and for which provider.
type Key struct{ User, Provider string }

// An In is what happens to the authorizations of a runtime. One of its members besides Token is
// set.
type In struct {
	Token    string // names who waits for a Told; empty for nobody
	Ask      *Ask
	Redirect *Redirect
	Confirm  *Confirm
	Ended    string // a call that needs no authorization any longer
	Closed   *Key   // of a session that is closed: the token is given back
}

// An Ask is made when the vault has no token that is good.
type Ask struct {
	Key     Key
	Need    []string // scopes without which the token is no use
	Refused string   // the digest of an access token that was refused
	Reject  bool     // it was refused although it had just been renewed
	User    *Request // how the user is asked; nil if he is not
}

// A Request says what is needed to ask the user.
type Request struct {
	Call    string // who waits
	After   string // the authorization whose outcome the call has had
	ID      string // of this one, if there is none that the call waits for already
	State   string // the digest of the state parameter
	Start   string // the digest of the secret in the address of the start page
	Print   string // of the provider's settings and of the key that secrets are made with
	Scopes  []string
	Confirm bool // the user has to confirm it before the token is kept
	Epoch   string
	All     int           // open ones of all runtimes, as far as that is known
	For     time.Duration // until it expires
}

// A Redirect brings a user back from the provider.
type Redirect struct {
	ID      string
	State   string // the digest of the state parameter
	Code    string // names the entry of the vault that has the code
	Refused Class  // Denied or Failed, without a code
}

// A Confirm says how a user has answered the questions for the code of an authorization.
type Confirm struct {
	ID    string
	Class Class // Good, Wrong, or Declined
}

// A Class says how something ended.
type Class string

// The classes.
const (
	Good        Class = "good"        // there is a token
	None        Class = "none"        // there is none, and the user was not to be asked
	Asked       Class = "asked"       // the user is to be asked, or was
	Failed      Class = "failed"      //
	Unrenewed   Class = "unrenewed"   // the provider could not be asked to renew it
	Denied      Class = "denied"      // by the user
	Other       Class = "other"       // somebody else has authorized
	Late        Class = "late"        // the user took too long
	Lost        Class = "lost"        // a process ended in the middle of it
	Unconfirmed Class = "unconfirmed" // the token is not kept before the user has confirmed it
	Wrong       Class = "wrong"       // a confirmation had a wrong number
	Declined    Class = "declined"    // the user says it was not him
	Paused      Class = "paused"      // there was a wrong number before
	Full        Class = "full"        // too many are open
	Over        Class = "over"        // there is no such authorization or call, or no longer
)

// A Told is the answer to an [In] with a token.
type Told struct {
	Class  Class
	ID     string   // of Asked
	Scopes []string // of Asked
}

// An Out is what a step says. One of its members besides Token is set.
type Out struct {
	Token   string // of Told
	Told    *Told
	Open    *Opened
	Settled *Settled
	Code    *Transit
	More    int // how many more are open
}

// An Opened is an authorization that a user may complete, or no longer.
type Opened struct {
	Runtime  string
	Key      Key
	ID       string
	State    string
	Start    string
	Print    string
	Scopes   []string
	Finished bool
}

// A Transit is an entry of the vault that is needed, or no longer.
type Transit struct {
	Name string
	Over bool
}

// A Settled says what came of an authorization that a call waits for.
type Settled struct {
	ID    string
	Class Class
}

// A Kind of job.
type Kind string

// The kinds.
const (
	Fetch    Kind = "fetch"    // finds a token that is good, and renews it if it must
	Exchange Kind = "exchange" // turns a code into a token
	Keep     Kind = "keep"     // keeps a token that was confirmed
	Discard  Kind = "discard"  // forgets a token that was not
	Revoke   Kind = "revoke"   // gives a token back, and deletes it
)

// A Job is something to do outside of the flow.
type Job struct {
	Kind    Kind
	Number  uint64 // tells it from all others of its runtime, also of the lives before
	Key     Key
	Refused string   // of Fetch
	Reject  bool     // of Fetch
	ID      string   // of the others but Revoke
	Code    string   // of Exchange
	Print   string   // of Exchange
	Scopes  []string // of Exchange
	Confirm bool     // of Exchange
}

// An Outcome is what came of a [Job].
type Outcome struct {
	Class  Class
	Access string   // the digest of the access token, if it is Good
	Scopes []string // of that
}
