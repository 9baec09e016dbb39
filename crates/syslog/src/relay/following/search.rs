//! Finds the files of a follower: those that it was reading, versions that had the name between two checks, copies, and the present file.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::folders::{REPEATS_MAX, Sibling, Survey};
use super::followed::Followed;
use super::tree::{Stat, Tree, TreeFile, bytes_before, is_copy, open_file, share_bytes};
use super::{FILES_MAX, Follower};
use crate::framing::Frame;
use crate::positions::{FileId, SavedFile, TAIL_BYTES, Tail};

/// Maximum number of files that are compared with one that was rewritten: the newest.
const COPIES_MAX: usize = 256;

/// Copies of a file that is gone or was rewritten.
struct Copies<F> {
    /// The longest that has all bytes that were read.
    copy: Option<(F, Stat)>,
    /// Those that lack lines that were read since, and when they last changed.
    older: Vec<(FileId, Option<u64>)>,
    /// No file was renamed meanwhile.
    is_settled: bool,
}

impl<T: Tree> Follower<T> {
    pub(super) fn survey(&mut self) -> Survey<T::File> {
        let wanted = self.resting.iter().map(|saved| saved.id.inode).collect();
        self.folders.survey(&wanted)
    }

    /// Finds files that have or had the followed name, if anything has changed.
    pub(super) fn look_at_folders(&mut self, now_us: u64, lines: &mut Vec<Frame>) {
        if !self.folders.have_changed(self.current(), now_us) {
            return;
        }
        let survey = self.survey();
        let present = survey.present_id();
        if self.current().is_some_and(|current| present != Some(current)) {
            // If a copy takes its place, lines that were written to it before are in both.
            self.read_file(self.files.len() - 1, now_us, lines);
            if let Some(last) = self.files.back_mut() {
                (last.is_rotated, last.grew_us, self.changed) = (true, now_us, true);
            }
        }
        let are_open = self.reopen(&survey, now_us);
        self.put_last(present);
        if !(survey.is_settled && are_open) && self.folders.repeat() {
            return;
        }
        let is_settled = self.replace_missing(&survey, now_us);
        self.put_last(present);
        if !is_settled && self.folders.repeat() {
            return;
        }
        if self.current().is_none() && !self.take_versions(&survey, now_us) {
            self.folders.repeat();
            return;
        }
        let others = survey.siblings.iter().map(Sibling::known);
        let known: BTreeMap<_, _> = others.filter(|(id, _)| !self.has(*id) && Some(*id) != present).collect();
        self.changed |= !self.known.keys().eq(known.keys());
        (self.known, self.new_since) = (known, (0, 0));
        self.folders.end_survey(now_us);
        if let Some((file, stat)) = self.checked(survey.present)
            && self.current().is_none()
        {
            self.take_present(file, &stat, now_us);
        }
    }

    /// Notes which of the open files has the followed name.
    fn put_last(&mut self, present: Option<FileId>) {
        if let Some(again) = self.files.iter().position(|followed| Some(followed.id) == present)
            && let Some(followed) = self.files.remove(again)
        {
            self.files.push_back(followed.rotated(false));
        }
    }

    /// Continues files that are not open: all that were not found before, and finished ones that have grown or have the name again. Returns whether
    /// all that are there are open.
    fn reopen(&mut self, survey: &Survey<T::File>, now_us: u64) -> bool {
        let mut are_open = true;
        for saved in self.resting.clone() {
            let is_present = survey.present_id() == Some(saved.id);
            let is_more = |sibling: &&Sibling| {
                sibling.stat.id == saved.id && (!saved.is_finished || sibling.stat.length > saved.offset)
            };
            let found = survey.siblings.iter().find(is_more).map(|sibling| &*sibling.path);
            let path = if is_present { Some(self.folders.path()) } else { found };
            let Some(path) = path else { continue };
            match open_file(&self.folders.tree, path) {
                Ok(Some((file, stat))) if stat.id == saved.id && self.files.len() < FILES_MAX => {
                    are_open &= self.resume_file(file, &stat, &saved, survey, now_us);
                }
                Ok(_) => are_open &= saved.is_finished,
                Err(error) => self.complain(&error),
            }
        }
        are_open
    }

    /// Continues at a saved position. The file counts as rotated until it is found to have the followed name. Returns whether that is settled.
    fn resume_file(
        &mut self,
        file: T::File,
        stat: &Stat,
        saved: &SavedFile,
        survey: &Survey<T::File>,
        now_us: u64,
    ) -> bool {
        match Followed::resume(file, stat, saved, self.bytes_max, now_us) {
            Ok((followed, true)) => self.add(followed.rotated(true)),
            // A finished file that was rewritten since has nothing of this input.
            Ok((_, false)) if saved.is_finished => {}
            Ok((followed, false)) => {
                let cause =
                    "was truncated or rewritten while the relay was down: lines that had not been read are lost";
                if !self.continue_in_copy(saved, survey, cause, now_us) {
                    return false;
                }
                // A rotated file is written over by a copy of another version. Without a birth time this may be a later file with the same inode.
                if !saved.is_rotated && (saved.id.born_ns > 0 || survey.present_id() == Some(saved.id)) {
                    let at = self.shared_position(&followed.file, stat, (&survey.siblings, saved.modified_ns));
                    self.begin_at(followed.file, stat, &at, true, now_us);
                }
            }
            Err(error) => self.complain(&error),
        }
        true
    }

    /// Continues in the copy of a file that is gone or was rewritten. Without a new copy, lines may be lost. Returns whether that is settled.
    fn continue_in_copy(&mut self, saved: &SavedFile, survey: &Survey<T::File>, cause: &str, now_us: u64) -> bool {
        let Copies { copy, is_settled, .. } = self.find_copies(survey, saved.offset, saved.tail, |_, _| false);
        let resumed = copy.map(|(file, stat)| (stat, Followed::resume(file, &stat, saved, self.bytes_max, now_us)));
        // The copy may have been rewritten since it was found.
        let (is_whole, copy) = match resumed {
            None => (true, None),
            Some((stat, Ok((followed, true)))) => (true, Some((followed, stat))),
            Some(_) => (false, None),
        };
        if !(is_settled && is_whole) && self.folders.may_repeat() {
            return false;
        }
        self.finish_resting(saved);
        // A copy that is read already goes on with its lines; another copy may have a part of them.
        let goes_on = |followed: &Followed<T::File>| {
            let before = bytes_before(&followed.file, saved.offset, TAIL_BYTES).ok().flatten();
            saved.tail.is_full() && before.is_some_and(|bytes| Tail::of(&bytes) == saved.tail)
        };
        let copy = copy.filter(|_| !self.files.iter().any(goes_on));
        // Known files without a birth time are not recorded: an old copy would be taken for a new one.
        let is_new = |stat: &Stat| self.is_changed(stat) && stat.id.born_ns > 0;
        if !copy.as_ref().is_some_and(|(_, stat)| is_new(stat)) {
            self.lose(cause);
        }
        // Versions from before its last change are its older copies.
        self.new_since.1 = self.new_since.1.max(saved.modified_ns);
        match copy {
            Some((followed, _)) => self.add(followed.rotated(true)),
            None => self.remember_lost(saved),
        }
        true
    }

    /// Remembers the position in a content that has no file any more: its copy may have been renamed while it was searched.
    fn remember_lost(&mut self, saved: &SavedFile) {
        if saved.offset > 0 {
            self.put_aside(saved.lost());
        }
    }

    /// Whether a file is new or was changed since the folder was surveyed. If not, it is a copy from before the lines that were written since.
    fn is_changed(&self, stat: &Stat) -> bool {
        self.known.get(&stat.id).is_none_or(|known| known.is_some_and(|modified_ns| modified_ns != stat.modified_ns))
    }

    /// Settles that files cannot be found: their copies continue at their positions. They are remembered in case that they come back. Returns
    /// whether that is settled.
    fn replace_missing(&mut self, survey: &Survey<T::File>, now_us: u64) -> bool {
        let missing: Vec<_> = self.resting.iter().filter(|saved| !saved.is_finished).copied().collect();
        let mut is_settled = true;
        for saved in missing {
            let cause = match saved.is_rotated {
                true => "had a rotated version that is gone: lines that it got after the relay had stopped are lost",
                false => {
                    "was another file before, which is gone: lines that it got after the relay had stopped are lost"
                }
            };
            is_settled &= self.continue_in_copy(&saved, survey, cause, now_us);
        }
        is_settled
    }

    fn finish_resting(&mut self, saved: &SavedFile) {
        self.resting.iter_mut().filter(|other| other.id == saved.id).for_each(|other| other.is_finished = true);
    }

    /// Replaces a file that does not have the bytes any more that were read: its copy continues, and the file itself begins again. If there is no
    /// copy, lines may be lost.
    pub(super) fn replace_rewritten(&mut self, index: usize, now_us: u64, lines: &mut Vec<Frame>) {
        let (survey, Copies { copy, older, .. }) = self.find_copies_settled(index);
        if !copy.as_ref().is_some_and(|(_, stat)| self.is_changed(stat)) {
            self.lose("was truncated or rewritten: lines that had not been read are lost");
        }
        let Some(mut followed) = self.files.remove(index) else { return };
        self.known.extend(older);
        let saved = followed.saved();
        let was_rotated = followed.is_rotated && survey.present_id() != Some(followed.id);
        let mut at = index;
        let file = match copy {
            Some((file, stat)) => {
                self.resting.retain(|saved| saved.id != stat.id);
                self.known.remove(&stat.id);
                let file = followed.move_to(file, &stat);
                (followed.is_rotated, followed.grew_us) = (true, now_us);
                self.files.insert(index, followed);
                at += 1;
                file
            }
            None => {
                followed.finish_line(true, lines);
                self.remember_lost(&followed.saved());
                followed.file
            }
        };
        self.changed = true;
        let begun = file.stat().and_then(|stat| {
            let shared = self.shared_position(&file, &stat, (&survey.siblings, saved.modified_ns));
            Followed::resume(file, &stat, &shared, self.bytes_max, now_us)
        });
        match begun {
            Ok((begun, _)) => self.files.insert(at, begun.rotated(was_rotated)),
            Err(error) => self.complain(&error),
        }
    }

    /// Finds the copies of an open file that was rewritten, in a survey during which no file was renamed, if there is one.
    fn find_copies_settled(&mut self, index: usize) -> (Survey<T::File>, Copies<T::File>) {
        let (offset, tail) = (self.files[index].offset(), self.files[index].tail());
        let mut number = 1;
        loop {
            let survey = self.survey();
            let followed = &self.files[index];
            let is_older = |copy: &T::File, stat: &Stat| followed.has_read(copy, stat);
            let copies = self.find_copies(&survey, offset, tail, is_older);
            if copies.is_settled || number == REPEATS_MAX {
                return (survey, copies);
            }
            number += 1;
        }
    }

    /// Finds the files that have these bytes before an offset. A short tail is no proof for a file that has another name, or the name itself.
    fn find_copies(
        &self,
        survey: &Survey<T::File>,
        offset: u64,
        tail: Tail,
        is_older: impl Fn(&T::File, &Stat) -> bool,
    ) -> Copies<T::File> {
        let mut copies = Copies { copy: None, older: Vec::new(), is_settled: survey.is_settled };
        if tail.is_empty() {
            return copies;
        }
        let is_possible = |sibling: &&Sibling| !self.has(sibling.stat.id) && (sibling.is_version || tail.is_full());
        let siblings = survey.siblings.iter().filter(is_possible);
        let mut paths: Vec<_> = siblings.map(|sibling| (sibling.stat, sibling.path.as_path())).collect();
        paths.sort_unstable_by_key(|(stat, path)| Reverse((stat.modified_ns, *path)));
        paths.truncate(COPIES_MAX);
        if let Ok(Some((_, present))) = &survey.present
            && tail.is_full()
        {
            paths.push((*present, self.folders.path()));
        }
        for (listed, path) in paths {
            let opened = open_file(&self.folders.tree, path);
            copies.is_settled &= matches!(&opened, Ok(Some((_, stat))) if stat.id == listed.id) || opened.is_err();
            let Ok(Some((file, stat))) = opened else { continue };
            if self.has(stat.id) {
                continue;
            }
            if is_older(&file, &stat) {
                copies.older.push((stat.id, Some(stat.modified_ns)));
            }
            let is_longer = copies.copy.as_ref().is_none_or(|(_, longest)| longest.length < stat.length);
            let before = || bytes_before(&file, offset, TAIL_BYTES).ok().flatten();
            if is_longer && before().is_some_and(|bytes| Tail::of(&bytes) == tail) {
                copies.copy = Some((file, stat));
            }
        }
        copies
    }

    /// Starts to read files that had the name between two checks, the oldest first. Returns whether all of them are open.
    fn take_versions(&mut self, survey: &Survey<T::File>, now_us: u64) -> bool {
        let present = survey.present.as_ref().ok().and_then(Option::as_ref);
        let had_name = |sibling: &&Sibling| {
            let Stat { id, modified_ns, .. } = sibling.stat;
            let is_new = (id.born_ns == 0 || id.born_ns >= self.new_since.0) && modified_ns >= self.new_since.1;
            let is_other = !self.known.contains_key(&id) && !self.has(id) && survey.present_id() != Some(id);
            sibling.is_version && is_new && is_other
        };
        let mut versions: Vec<_> = survey.siblings.iter().filter(had_name).collect();
        versions.sort_by_key(|sibling| (sibling.stat.id.born_ns, sibling.stat.modified_ns, sibling.stat.id));
        let room = FILES_MAX.saturating_sub(self.files.len());
        let (mut opened, mut are_open) = (Vec::new(), versions.len() <= room);
        for sibling in versions.into_iter().take(room) {
            match open_file(&self.folders.tree, &sibling.path) {
                Ok(Some((file, stat))) if stat.id == sibling.stat.id => opened.push((file, stat)),
                Ok(_) => are_open = false,
                Err(error) => self.complain(&error),
            }
        }
        let is_copied = |at: usize| {
            let (file, stat) = &opened[at];
            // A copy in the place of a file that is gone may grow.
            let is_original = |other: &&T::File| {
                stat.length < TAIL_BYTES as u64 || !other.stat().is_ok_and(|original| original.links == 0)
            };
            let followed = self.files.iter().map(|followed| &followed.file).chain(present.map(|(file, _)| file));
            let followed = followed.filter(is_original);
            // Of equal files the first one counts. One file may have two names.
            let is_other = |(other, (_, its)): &(usize, &(T::File, Stat))| {
                its.id != stat.id && (*other < at || its.length > stat.length)
            };
            let others = opened.iter().enumerate().filter(is_other);
            followed.chain(others.map(|(_, (other, _))| other)).any(|other| is_copy(file, stat, other))
        };
        let are_copies: Vec<_> = (0..opened.len()).map(is_copied).collect();
        // The copies of a file that was rewritten meanwhile look like new files.
        if !opened.is_empty() && self.folders.may_repeat() && !self.files.iter().all(Followed::is_whole) {
            return false;
        }
        for ((file, stat), is_copy) in opened.into_iter().zip(are_copies) {
            if !is_copy && !self.has(stat.id) {
                let at = self.shared_position(&file, &stat, (&[], 0));
                self.begin_at(file, &stat, &at, true, now_us);
            }
        }
        are_open
    }

    /// Whether a rotated file that is still unread is a copy of another one: it was empty when it was found, and was written over.
    pub(super) fn has_become_copy(&self, index: usize) -> bool {
        let followed = &self.files[index];
        let mut others = self.files.iter().filter(|other| other.id != followed.id);
        followed.is_rotated
            && followed.offset() == 0
            && followed.file.stat().is_ok_and(|stat| others.any(|other| is_copy(&followed.file, &stat, &other.file)))
    }

    /// Starts to read the file that has the followed name. A copy that replaces the file before continues where that was read to.
    fn take_present(&mut self, file: T::File, stat: &Stat, now_us: u64) {
        let at = self.shared_position(&file, stat, (&[], 0));
        self.begin_at(file, stat, &at, false, now_us);
    }

    /// Starts to read a file at a position.
    fn begin_at(&mut self, file: T::File, stat: &Stat, at: &SavedFile, is_rotated: bool, now_us: u64) {
        match Followed::resume(file, stat, at, self.bytes_max, now_us) {
            Ok((followed, _)) => self.add(followed.rotated(is_rotated)),
            Err(error) => self.complain(&error),
        }
    }

    /// Finds the position in a new file behind the lines that it shares with the beginning of others: with one that was read up to there, or with
    /// all of one that is read or was there at a time. Fewer bytes than a tail are no proof, nor is one line again and again.
    fn shared_position(&self, file: &T::File, stat: &Stat, (siblings, before_ns): (&[Sibling], u64)) -> SavedFile {
        let tail_at = |offset| bytes_before(file, offset, TAIL_BYTES).ok().flatten();
        let open = self.files.iter().map(Followed::saved);
        let is_proof = |saved: &SavedFile| saved.tail.is_full() || [stat.id, FileId::default()].contains(&saved.id);
        let saved = self.resting.iter().copied().chain(open).filter(is_proof);
        let has_bytes = |saved: &SavedFile| {
            let is_same =
                |bytes: &Vec<u8>| Tail::of(bytes) == saved.tail && (saved.id == stat.id || !is_one_line(bytes));
            saved.offset <= stat.length && tail_at(saved.offset).is_some_and(|bytes| is_same(&bytes))
        };
        let is_telling = |offset| tail_at(offset).is_some_and(|bytes| !is_one_line(&bytes));
        let mut longest = SavedFile::default();
        for SavedFile { offset, in_cut_line, .. } in saved.filter(has_bytes) {
            if offset > longest.offset {
                longest = SavedFile { offset, in_cut_line, ..SavedFile::default() };
            }
        }
        for followed in &self.files {
            let SavedFile { offset, in_cut_line, .. } = followed.saved();
            let shared = offset.min(stat.length);
            let is_gone = || followed.file.stat().is_ok_and(|stat| stat.links == 0);
            // The copy that replaces a file may be shorter than its position.
            if shared >= longest.offset.max(TAIL_BYTES as u64)
                && is_gone()
                && is_telling(shared)
                && share_bytes(file, &followed.file, shared).unwrap_or_default()
            {
                longest = SavedFile { offset: shared, in_cut_line, ..SavedFile::default() };
            }
        }
        let mut extend = |other: &T::File| {
            let Ok(Stat { id, length, .. }) = other.stat() else { return };
            let is_longer = (longest.offset.max(TAIL_BYTES as u64)..=stat.length).contains(&length);
            if id != stat.id && is_longer && is_telling(length) && share_bytes(file, other, length).unwrap_or_default()
            {
                // The other file may end in the middle of a line, which is whole in this one.
                let bytes = tail_at(length).unwrap_or_default();
                let rest = bytes.iter().rev().position(|byte| *byte == b'\n').unwrap_or_default() as u64;
                let offset = (length - rest).max(longest.offset);
                longest = SavedFile { offset, ..SavedFile::default() };
            }
        };
        self.files.iter().for_each(|followed| extend(&followed.file));
        // A newer one may be a copy of this file.
        let is_old = |sibling: &&Sibling| {
            sibling.is_version && sibling.stat.modified_ns <= before_ns && !self.is_changed(&sibling.stat)
        };
        let others = siblings.iter().filter(is_old).filter(|sibling| !self.has(sibling.stat.id));
        for sibling in others.take(COPIES_MAX) {
            if let Ok(Some((other, its))) = open_file(&self.folders.tree, &sibling.path)
                && its.id == sibling.stat.id
            {
                extend(&other);
            }
        }
        longest
    }
}

/// Whether bytes hold the same line several times and no other, so that any file of such lines has them.
fn is_one_line(bytes: &[u8]) -> bool {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    // The first one may be the end of a line, and the last one the beginning.
    lines.next();
    lines.next_back();
    let Some(first) = lines.next() else { return false };
    let mut others = lines.peekable();
    others.peek().is_some() && others.all(|line| line == first)
}
