package toolserver

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace/agentproto/internal/vault"
)

// ErrUnauthorized says that the access token of a call is not, or no longer, valid. [Token] and the client
// of [Client] return it. If a tool function returns it, or an error that wraps it, the token is renewed or
// the user asked again, and the function runs once more from its start.
var ErrUnauthorized = errors.New("toolserver: the access token was refused")

// ErrNoToken is returned by [Vault.Load] if there is no token for the key.
var ErrNoToken = vault.ErrNoToken

// ErrUnknownClient is returned by [Authorize], [StoredToken] and [Token] if the provider does not accept the server as its
// client (invalid_client), so that it neither issues nor renews tokens. A client that was registered dynamically may be registered
// anew, see [Server.SetProvider].
var ErrUnknownClient = errors.New("the authorization failed: the provider does not know the tool server as a client")

// ErrNoAnswer is returned by [Choose] and [SendTo] when the user did not answer in time.
var ErrNoAnswer = errors.New("the choice was not answered in time")

// ErrBadAnswer is returned by [Choose] when the answer is not the index of a choice.
var ErrBadAnswer = errors.New("the answer is not one of the choices")

// ErrNotAsked is returned by [Choose] and [SendTo] when the question could not be delivered to the user.
var ErrNotAsked = errors.New("the question could not be delivered")

// ErrAddress is returned by [SendTo] for an address that is not https, or that could be mistaken for
// another one.
var ErrAddress = errors.New("the address is not one that a user may be sent to")

// ErrClosing is returned by [Choose] and [SendTo] when the server is closed, and is the cause
// of a tool function's context when [Server.Close] gives up waiting for it.
var ErrClosing = errors.New("the tool server is shutting down")

// ErrMoving is the cause of a tool function's context when the session of its call moves to another
// instance of the server, which runs the function again. It wraps [ErrClosing].
var ErrMoving = fmt.Errorf("%w: the session moves to another instance", ErrClosing)

// ErrCancelled is the cause of a tool function's context after the call was
// cancelled or its thread was closed.
var ErrCancelled = errors.New("toolserver: the call was cancelled")

// errRestarted is the error result of a call with [ToolOptions.RunOnce] that a restart interrupted.
var errRestarted = errors.New("the tool server was restarted while the tool ran; whether it has done its work is not known")

// ErrBegan is returned by [Began] if an earlier run of the function had called it.
var ErrBegan = errors.New("toolserver: the call had begun before the tool server was restarted; whether it has done its work is not known")

// errSteps says that a call exceeds the limits of [Step].
var errSteps = errors.New("toolserver: the call has kept more than 256 steps, or 1 MiB of them")

// errStepLeak says that the result of a [Step] contained a credential.
var errStepLeak = errors.New("toolserver: Step: the result had a credential in it")

// errEnded says that a call or its subscription has sent its last message.
var errEnded = errors.New("toolserver: the call has ended")

// Errors that tell a model why an authorization failed. The words are fixed: what a provider says may
// contain the code it was given.
var (
	errDenied       = errors.New("the user did not authorize the access")
	errAuthFailed   = errors.New("the authorization failed")
	errAuthTimeout  = errors.New("the authorization was not completed in time")
	errAuthNotAsked = errors.New("the request for authorization could not be delivered")
	errScopes       = errors.New("the access that was authorized does not include what the tool needs")
	errOtherUser    = errors.New("the access was authorized by somebody else than the user")
	errNoUser       = errors.New("the access needs a user, whom the call does not name")
	errNotConfirmed = errors.New("the authorization was not confirmed")
	errAuthPaused   = errors.New("the access cannot be authorized now, since a number was wrong; it can be tried again later")
	errAuthMany     = errors.New("too many authorizations are pending")
	errNotRenewed   = errors.New("the access could not be renewed")
	errAuthRepeated = errors.New("the access was refused in spite of a new authorization")
)
