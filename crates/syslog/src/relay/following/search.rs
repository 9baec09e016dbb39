//! Finds the files of a follower: those that it was reading, versions that had the name between two checks, copies, and the present file.

use std::collections::BTreeMap;

use super::folders::{Sibling, Survey};
use super::followed::Followed;
use super::tree::{Stat, Tree, TreeFile, bytes_before, is_copy, open_file, share_bytes};
use super::{FILES_MAX, Follower};
use crate::framing::Frame;
use crate::positions::{SavedFile, TAIL_BYTES, Tail};

/// Maximum number of files that are compared with one that was rewritten: the newest.
const COPIES_MAX: usize = 256;

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
        if !(survey.is_settled && are_open) && self.folders.repeat() {
            return;
        }
        self.replace_missing(&survey, now_us);
        if let Some(again) = self.files.iter().position(|followed| Some(followed.id) == present)
            && let Some(followed) = self.files.remove(again)
        {
            self.files.push_back(followed.rotated(false));
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
                    self.resume_file(file, &stat, &saved, survey, now_us);
                }
                Ok(_) => are_open &= saved.is_finished,
                Err(error) => self.complain(&error),
            }
        }
        are_open
    }

    /// Continues at a saved position. The file counts as rotated until it is found to have the followed name.
    fn resume_file(&mut self, file: T::File, stat: &Stat, saved: &SavedFile, survey: &Survey<T::File>, now_us: u64) {
        match Followed::resume(file, stat, saved, self.bytes_max, now_us) {
            Ok((followed, true)) => self.add(followed.rotated(true)),
            // A finished file that was rewritten since has nothing of this input.
            Ok((_, false)) if saved.is_finished => {}
            Ok((followed, false)) => {
                self.finish_resting(saved);
                let cause =
                    "was truncated or rewritten while the relay was down: lines that had not been read are lost";
                self.continue_in_copy(saved, survey, cause, now_us);
                // A rotated file is written over by a copy of another version. Without a birth time this may be a later file with the same inode.
                if !saved.is_rotated && (saved.id.born_ns > 0 || survey.present_id() == Some(saved.id)) {
                    self.add(followed.rotated(true));
                }
            }
            Err(error) => self.complain(&error),
        }
    }

    /// Continues in the copy of a file that is gone or was rewritten. Without a new copy, lines may be lost.
    fn continue_in_copy(&mut self, saved: &SavedFile, survey: &Survey<T::File>, cause: &str, now_us: u64) {
        let copy = self.find_copy(survey, saved.offset, saved.tail);
        if !copy.as_ref().is_some_and(|(_, stat)| self.is_changed(stat)) {
            self.lose(cause);
        }
        if let Some((file, stat)) = copy
            && let Ok((followed, true)) = Followed::resume(file, &stat, saved, self.bytes_max, now_us)
        {
            self.add(followed.rotated(true));
        }
    }

    /// Whether a file is new or was changed since the folder was surveyed. If not, it is a copy from before the lines that were written since.
    fn is_changed(&self, stat: &Stat) -> bool {
        self.known.get(&stat.id).is_none_or(|known| known.is_some_and(|modified_ns| modified_ns != stat.modified_ns))
    }

    /// Settles that files cannot be found: their copies continue at their positions. They are remembered in case that they come back.
    fn replace_missing(&mut self, survey: &Survey<T::File>, now_us: u64) {
        let missing: Vec<_> = self.resting.iter().filter(|saved| !saved.is_finished).copied().collect();
        for saved in missing {
            self.finish_resting(&saved);
            let cause = match saved.is_rotated {
                true => "had a rotated version that is gone: lines that it got after the relay had stopped are lost",
                false => {
                    "was another file before, which is gone: lines that it got after the relay had stopped are lost"
                }
            };
            self.continue_in_copy(&saved, survey, cause, now_us);
        }
    }

    fn finish_resting(&mut self, saved: &SavedFile) {
        self.resting.iter_mut().filter(|other| other.id == saved.id).for_each(|other| other.is_finished = true);
    }

    /// Replaces a file that does not have the bytes any more that were read: its copy continues, and the file itself begins again. If there is no
    /// copy, lines may be lost.
    pub(super) fn replace_rewritten(&mut self, index: usize, now_us: u64, lines: &mut Vec<Frame>) {
        let survey = self.survey();
        let (offset, tail) = (self.files[index].offset(), self.files[index].tail());
        let copy = self.find_copy(&survey, offset, tail);
        if !copy.as_ref().is_some_and(|(_, stat)| self.is_changed(stat)) {
            self.lose("was truncated or rewritten: lines that had not been read are lost");
        }
        let Some(mut followed) = self.files.remove(index) else { return };
        // Older copies, which lack lines that were read since.
        let copies = survey.siblings.iter().filter(|sibling| sibling.stat.modified_ns <= followed.modified_ns);
        let copies: Vec<_> = copies.map(Sibling::known).filter(|(id, _)| !self.has(*id)).collect();
        self.known.extend(copies);
        let (saved, was_rotated) = (followed.saved(), followed.is_rotated);
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
                followed.file
            }
        };
        self.changed = true;
        // A rotated file is written over by a copy of another version.
        if was_rotated {
            return self.rest(SavedFile { is_finished: true, ..saved });
        }
        match file.stat().and_then(|stat| Followed::begin(file, &stat, 0, self.bytes_max, now_us)) {
            Ok(begun) => self.files.insert(at, begun),
            Err(error) => self.complain(&error),
        }
    }

    /// Finds the longest file that has these bytes before an offset. A short tail is no proof for a file that has another name, or the name itself.
    fn find_copy(&self, survey: &Survey<T::File>, offset: u64, tail: Tail) -> Option<(T::File, Stat)> {
        if tail.is_empty() {
            return None;
        }
        let is_possible = |sibling: &&Sibling| !self.has(sibling.stat.id) && (sibling.is_version || tail.is_full());
        let siblings = survey.siblings.iter().filter(is_possible);
        let mut paths: Vec<_> = siblings.map(|sibling| (sibling.stat.modified_ns, sibling.path.clone())).collect();
        paths.sort_unstable_by(|one, other| other.cmp(one));
        paths.truncate(COPIES_MAX);
        if tail.is_full() {
            paths.push((0, self.folders.path().to_owned()));
        }
        let mut longest: Option<(T::File, Stat)> = None;
        for (_, path) in paths {
            let Ok(Some((file, stat))) = open_file(&self.folders.tree, &path) else { continue };
            let is_longer = longest.as_ref().is_none_or(|(_, longest)| longest.length < stat.length);
            let before = || bytes_before(&file, offset, TAIL_BYTES).ok().flatten();
            if is_longer && !self.has(stat.id) && before().is_some_and(|bytes| Tail::of(&bytes) == tail) {
                longest = Some((file, stat));
            }
        }
        longest
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
            let followed = self.files.iter().map(|followed| &followed.file).chain(present.map(|(file, _)| file));
            // Of equal files the first one counts.
            let others = opened.iter().enumerate().filter(|(other, (_, its))| *other < at || its.length > stat.length);
            followed.chain(others.map(|(_, (other, _))| other)).any(|other| is_copy(file, stat, other))
        };
        let are_copies: Vec<_> = (0..opened.len()).map(is_copied).collect();
        for ((file, stat), is_copy) in opened.into_iter().zip(are_copies) {
            // One file may have two names.
            if !is_copy && !self.has(stat.id) {
                self.begin(file, &stat, 0, true, now_us);
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
        let mut offset = 0;
        if let Some(last) = self.files.back()
            && last.file.stat().is_ok_and(|stat| stat.links == 0)
        {
            let shared = last.saved().offset.min(stat.length);
            // Fewer bytes are no proof.
            let is_copy = shared >= TAIL_BYTES as u64 && share_bytes(&file, &last.file, shared).unwrap_or_default();
            offset = if is_copy { shared } else { 0 };
        }
        self.begin(file, stat, offset, false, now_us);
    }
}
