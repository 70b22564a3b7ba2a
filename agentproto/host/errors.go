package host

import (
	"errors"

	"github.com/millrace/millrace/agentproto/host/internal/capability"
	"github.com/millrace/millrace/agentproto/host/internal/memlimit"
	"github.com/millrace/millrace/agentproto/host/internal/peer"
)

var (
	// ErrStopped is returned by the methods of a [Runtime] that was stopped or whose context ended.
	ErrStopped = peer.ErrStopped

	// ErrFull is returned by [Runtime.Call] and [Runtime.OpenSession] when nine tenths of [Bounds].Memory are in use. Earlier
	// calls go on.
	ErrFull = memlimit.ErrFull

	// ErrBadID is returned by [Runtime.Call] for an identifier that is empty, too
	// long, not UTF-8, or contains control characters, line separators or marks that reorder text.
	ErrBadID = capability.ErrBadID

	// ErrDuplicateCall is returned by [Runtime.Call] for a key that was used before. The earlier call is not affected.
	ErrDuplicateCall = errors.New("host: identifier was used before in this thread")

	// ErrUnknownCall is returned by [Runtime.Describe] for a call that was never made or is forgotten. A call is forgotten a day
	// after its result, unless [Options].Conversation says otherwise.
	ErrUnknownCall = errors.New("host: there is no such call")

	// ErrOtherProcess is returned by [Runtime.AnswerPrompt], [Runtime.AnswerForm] and [Runtime.Events] for a call of another process
	// that shares the state, or of none for a moment, while it changes hands. Only the process that runs a call knows its prompts
	// and its events.
	ErrOtherProcess = errors.New("host: another process runs this call, so ask there")

	// ErrUnknownModel is returned by [Runtime.OpenSession] for a name that no model of [Options].Model has.
	ErrUnknownModel = errors.New("host: there is no such model")

	// ErrBadChoice is returned by [Runtime.Answer] for a selection that is not an
	// index into the choices of the prompt.
	ErrBadChoice = errors.New("host: no such choice")
)
