// Package disklog keeps the log of a durable flow in a folder, for one process and without a
// server. [Dir] is what a program gives to durable.Options.Log.
//
// # What is where
//
//	lock      locked while the log is open
//	identity  format, a random identity, when it was made, its name, its number of partitions
//	mark      how far each file of db that is appended to was synced, and a checksum of that
//	unfinished  there while a history is copied here
//	reserve   room on the disk for what is under way when the disk is full
//	reserve-log  a part of it that the write-ahead log does not share with tables
//	db/       a database of Pebble, with these keys:
//
//	r|partition|position     a message of records
//	s|partition|fence        a step, or where its pieces are
//	t|partition|number|index pieces of steps of more than 256 KiB
//	m|partition|0            the latest snapshot, or where its pieces are
//	n|partition|number|index pieces of snapshots of more than 256 KiB
//	o|partition|number|index pieces of the state
//	q|partition|number       how large each of them is
//	p|partition|0            up to where records were purged
//	c|0|0                    the counter that positions, fences and numbers come from
//	i|0|0                    the identity again
//
// A value that is larger than 32 KiB is kept in parts. Each part has a CRC-32C of its own, of
// the key and the value. A message says which position was before it in its partition, and a
// step which fence, so a reader notices what is missing between them.
//
// Records, steps and snapshots that come while the disk syncs are gathered, those of all
// partitions, and share the next sync. Nobody sees them before it is done, but for who makes the
// steps of a partition: it reads records ahead ([Log.ReadAhead]), and they share a sync with the
// step that takes them. The log waits 10 ms for that step, and then syncs without it.
//
// # What is promised
//
// What was acknowledged is on the disk, and is there after the process was killed or the
// machine has lost power, as far as the disk keeps what it has synced. The order within a
// partition is that of the positions. Positions and fences never come twice.
//
// When the disk is full, what is under way is completed with the reserve, if that suffices,
// and waits otherwise. What comes then is refused with journal.ErrFull; reading goes on, and
// so does a purge. The log takes everything again soon after there is room. An Open that
// finds no room returns journal.ErrFull after a second.
//
// Any other failed write ends the log: all that is called afterwards returns an error that
// says so. What was under way gets journal.ErrUnknown. The log has to be closed, and opened
// again when the disk is well.
//
// # Damage
//
// A file that is gone, cut short or changed is noticed when the log is opened, or else when
// what is damaged is read, and the error is journal.ErrDamaged, with the folder, and with the
// partition if only that is concerned. The end of a file that was being written when the
// process ended, and that nobody was told is there, is cut; the logger hears of it. Damage that
// is harmless is not an error: the identity is written again, a mark that is gone is made
// again, and what was purged is not read.
//
// Not noticed is
//
//   - a folder that was replaced, between two Opens, as a whole by an older copy of itself:
//     records and steps are equally old then. Another log in its place has another identity;
//     a folder that is removed or replaced while it is open is journal.ErrDamaged;
//   - a folder that was emptied: it is a new log. Only journal.OpenOptions.Existing refuses it;
//   - the loss of the end of the newest file in db together with the mark;
//   - after a loss of power, the later loss of what was synced at the very end: the mark is
//     not synced with each write, and what is on the disk may be some seconds older. Pebble
//     itself then notices damage before the last 32 KiB.
//
// On file systems that set no room aside for zeros, such as those that compress, the reserve
// is of no use, and what is under way on a full disk waits.
package disklog
