package capability

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/ids"
)

// ErrBadID is wrapped by the errors of [CheckID].
var ErrBadID = errors.New("host: bad identifier")

// CheckID returns an error for an invalid identifier of a thread or a call. Such identifiers become parts of URLs, and are shorter
// than others.
func CheckID(what, id string) error { return check(what, id, agentproto.MaxID) }

// CheckOther is like [CheckID] for an identifier that is in no URL, such as a user's.
func CheckOther(what, id string) error { return check(what, id, ids.MaxBytes) }

func check(what, id string, limit int) error {
	switch {
	case id == "":
		return fmt.Errorf("host: %s is empty: %w", what, ErrBadID)
	case len(id) > limit:
		return fmt.Errorf("host: %s has %d bytes, at most %d: %w", what, len(id), limit, ErrBadID)
	}
	if reason := ids.Reason(id); reason != "" {
		return fmt.Errorf("host: %s %s: %w", what, reason, ErrBadID)
	}
	return nil
}
