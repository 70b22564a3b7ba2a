package authorize

import "time"

// A Key names the owner of a token, among those of one runtime, and the provider.
type Key struct{ User, Provider string }

// An In is an input about the authorizations of a runtime. Exactly one of its members other than
// Token is set.
type In struct {
	Token    string // names the receiver of the Told; empty for none
	Ask      *Ask
	Redirect *Redirect
	Confirm  *Confirm
	Ended    string // a call that no longer needs an authorization
	Closed   *Key   // of a closed session, whose token is given back
}

// An Ask is made when the vault has no valid token.
type Ask struct {
	Key     Key
	Need    []string // scopes that the token must have
	Refused string   // the digest of an access token that was refused
	Reject  bool     // the token was refused although it had just been renewed
	User    *Request // how to ask the user; nil for not at all
}

// A Request contains what is needed to ask the user.
type Request struct {
	Call    string // the waiting call
	After   string // the authorization whose outcome the call has received
	ID      string // of the new authorization, if the call does not already wait for one
	State   string // the digest of the state parameter
	Start   string // the digest of the secret in the address of the start page
	Print   string // of the provider's settings and of the key that secrets are made with
	Scopes  []string
	Confirm bool          // the user must confirm before the token is stored
	Epoch   string        // names the process of the call
	All     int           // open ones of all runtimes, as far as known
	For     time.Duration // until it expires
}

// A Redirect brings a user back from the provider.
type Redirect struct {
	ID      string
	State   string // the digest of the state parameter
	Code    string // the entry of the vault that contains the code
	Refused Class  // Denied or Failed; then there is no code
}

// A Confirm is the outcome of asking a user for the code of an authorization.
type Confirm struct {
	ID    string
	Class Class // Good, Wrong, or Declined
}

// A Class is an outcome.
type Class string

// The classes.
const (
	Good        Class = "good"        // there is a token
	None        Class = "none"        // there is none, and the user may not be asked
	Asked       Class = "asked"       // the user is to be asked, or was
	Failed      Class = "failed"      //
	Unrenewed   Class = "unrenewed"   // the provider could not be asked for a renewal
	Unknown     Class = "unknown"     // the provider does not know the tool server as its client
	Denied      Class = "denied"      // by the user
	Other       Class = "other"       // somebody else has authorized
	Late        Class = "late"        // the user took too long
	Lost        Class = "lost"        // a process ended during the authorization
	Unconfirmed Class = "unconfirmed" // the token is not stored until the user has confirmed it
	Wrong       Class = "wrong"       // a confirmation had a wrong number
	Declined    Class = "declined"    // the user says that somebody else authorized
	Paused      Class = "paused"      // there was a wrong number recently
	Full        Class = "full"        // too many are open
	Over        Class = "over"        // no such authorization or call exists, or no longer
)

// A Told is the answer to an [In] with a token.
type Told struct {
	Class  Class
	ID     string   // of Asked
	Scopes []string // of Asked
}

// An Out is an output of a step. Exactly one of its members other than Token is set.
type Out struct {
	Token   string // of Told
	Told    *Told
	Open    *Opened
	Settled *Settled
	Code    *Transit
	More    int // change of the number of open authorizations
}

// An Opened says that a user may complete an authorization, or, if Finished, no longer.
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

// A Transit says that an entry of the vault is needed, or, if Over, no longer.
type Transit struct {
	Name string
	Over bool
}

// A Settled is the outcome of an authorization that a call waits for.
type Settled struct {
	ID    string
	Class Class
}

// A Kind is a kind of job.
type Kind string

// The kinds.
const (
	Fetch    Kind = "fetch"    // finds a valid token, and renews it if necessary
	Exchange Kind = "exchange" // turns a code into a token
	Keep     Kind = "keep"     // stores a confirmed token
	Discard  Kind = "discard"  // forgets a code, and a token that was not confirmed
	Revoke   Kind = "revoke"   // gives a token back, and deletes it
)

// A Job is work outside the flow.
type Job struct {
	Kind    Kind
	Number  uint64 // distinguishes it from all other jobs of its runtime, even from earlier lives
	Key     Key
	Refused string   // of Fetch
	Reject  bool     // of Fetch
	ID      string   // of all except Fetch and Revoke
	Code    string   // of Exchange
	Print   string   // of Exchange
	Scopes  []string // of Exchange
	Confirm bool     // of Exchange
}

// An Outcome is the result of a [Job].
type Outcome struct {
	Class  Class
	Access string   // the digest of the access token, if it is Good
	Scopes []string // of the access token
	Epoch  string   // of Unconfirmed: the process whose memory has the token
}
