package membership

import "errors"

// Why a process cannot become a member, or is no longer one.
var (
	// ErrOptions says that an option is missing or out of range. [Join] returns it.
	ErrOptions = errors.New("membership: wrong option")

	// ErrBucket says that the bucket of leases exists and does not fit the options: another number of
	// partitions or of replicas, or no time to live. All members of an application must agree on these, or two
	// of them would own one partition. [Join] returns it.
	ErrBucket = errors.New("membership: the bucket does not fit")

	// ErrLeft says that the member has left. [Member.Next] returns it after [Member.Leave].
	ErrLeft = errors.New("membership: left")

	// ErrSuperseded says that another member has joined later with the same ID, such as the next process of the
	// same service. [Join] and [Member.Next] return it; join again with another ID, or end.
	ErrSuperseded = errors.New("membership: another member joined with this ID")

	// ErrClosed says that the connection was closed for good. [Join] and [Member.Next] return it.
	ErrClosed = errors.New("membership: the connection is closed")
)
