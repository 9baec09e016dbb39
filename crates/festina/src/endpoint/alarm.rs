//! Wakes the driver at a point in time, within tens of microseconds.
//!
//! The timers of runtimes are coarse: tokio's work on a wheel with slots of one millisecond and round up, so they fire 1.1 ms late on average. That would be a large part of
//! the few milliseconds of margin with which a thin stream's probe follows the round trip. Linux has a more precise clock: a timerfd, which the
//! runtime polls like any socket. A sending thread can also move the alarm by itself, without waking the driver's task.

#[cfg(target_os = "linux")]
pub(crate) use self::timerfd::{Alarm, Bell};
#[cfg(not(target_os = "linux"))]
pub(crate) use self::wheel::{Alarm, Bell};

#[cfg(target_os = "linux")]
mod timerfd {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::sync::Arc;
    use std::task::{Context, Poll};

    use festina_units::Duration;
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };

    use crate::runtime::{Direction, Runtime, Watched};

    /// One timer of the operating system, to be set by any thread.
    #[derive(Debug)]
    pub(crate) struct Alarm {
        timer: Arc<OwnedFd>,
    }

    /// The same timer, to be waited for by the driver. To the runtime it is a special file that is read: 8 bytes, the number
    /// of times that it rang.
    #[derive(Debug)]
    pub(crate) struct Bell {
        timer: Arc<OwnedFd>,
        watched: Box<dyn Watched>,
    }

    impl Alarm {
        /// The timer uses the clock of [`now`](crate::now), so that it has rung when a suspension ends that was longer
        /// than its delay.
        pub(crate) fn new(runtime: &Arc<dyn Runtime>) -> io::Result<(Self, Bell)> {
            let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
            let timer = Arc::new(timer);
            let bell = Bell { timer: Arc::clone(&timer), watched: runtime.watch_descriptor(timer.try_clone()?)? };
            Ok((Self { timer }, bell))
        }

        /// Rings once, `delay` from now, instead of whenever it was to ring before.
        pub(crate) fn set(&self, delay: Duration) {
            // A delay of zero would disarm the timer.
            let delay = delay.max(Duration::from_nanos(1));
            let delay = Timespec {
                tv_sec: i64::try_from(delay.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: delay.subsec_nanos().into(),
            };
            let once = Timespec { tv_sec: 0, tv_nsec: 0 };
            let setting = Itimerspec { it_interval: once, it_value: delay };
            timerfd_settime(&*self.timer, TimerfdTimerFlags::empty(), &setting)
                .expect("setting an own timer to a valid time cannot fail");
        }
    }

    #[cfg(test)]
    impl Alarm {
        /// The number of its file descriptor.
        pub(crate) fn number(&self) -> i32 {
            std::os::fd::AsRawFd::as_raw_fd(&*self.timer)
        }
    }

    impl Bell {
        /// Ready if it rang since the last call; otherwise the task is woken when it does.
        pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
            let mut rang = false;
            // The second reading finds nothing, which tells the runtime to watch.
            while let Poll::Ready(Ok(())) = self.watched.poll_ready(Direction::Read, context) {
                let mut count = [0; 8];
                let read = self.watched.try_io(Direction::Read, &mut || {
                    rustix::io::read(&*self.timer, &mut count)?;
                    Ok(())
                });
                match read {
                    Ok(()) => rang = true,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    // Only a runtime that shuts down fails here, and drops the task.
                    Err(_) => break,
                }
            }
            if rang { Poll::Ready(()) } else { Poll::Pending }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod wheel {
    use std::io;
    use std::sync::{Arc, Mutex};
    use std::task::{Context, Poll, Waker};
    use std::time::Instant;

    use festina_units::Duration;

    use crate::locks::lock;
    use crate::runtime::{Runtime, Task};

    /// A timer of the runtime, where the operating system has nothing better; to be set by any thread.
    #[derive(Debug)]
    pub(crate) struct Alarm {
        setting: Arc<Mutex<Setting>>,
    }

    /// The same timer, to be waited for by the driver.
    pub(crate) struct Bell {
        setting: Arc<Mutex<Setting>>,
        runtime: Arc<dyn Runtime>,
        /// The pause until the earliest time that it was set to, and that time.
        sleep: Option<(Instant, Task)>,
    }

    impl std::fmt::Debug for Bell {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("Bell").field("setting", &self.setting).finish_non_exhaustive()
        }
    }

    #[derive(Debug, Default)]
    struct Setting {
        rings_at: Option<Instant>,
        driver: Option<Waker>,
    }

    impl Alarm {
        pub(crate) fn new(runtime: &Arc<dyn Runtime>) -> io::Result<(Self, Bell)> {
            let setting = Arc::<Mutex<Setting>>::default();
            let bell = Bell { setting: setting.clone(), runtime: Arc::clone(runtime), sleep: None };
            Ok((Self { setting }, bell))
        }

        /// Rings once, `delay` from now, instead of whenever it was to ring before.
        pub(crate) fn set(&self, delay: Duration) {
            let mut setting = lock(&self.setting);
            setting.rings_at = Instant::now().checked_add(delay);
            let driver = setting.driver.take();
            drop(setting);
            if let Some(driver) = driver {
                driver.wake();
            }
        }
    }

    impl Bell {
        /// Ready if it rang since the last call; otherwise the task is woken when it does.
        pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
            let mut setting = lock(&self.setting);
            let rang = setting.rings_at.is_some_and(|rings_at| {
                if self.sleep.as_ref().is_none_or(|(until, _)| *until != rings_at) {
                    let delay = rings_at.saturating_duration_since(Instant::now());
                    self.sleep = Some((rings_at, self.runtime.sleep(delay)));
                }
                self.sleep.as_mut().is_some_and(|(_, sleep)| sleep.as_mut().poll(context).is_ready())
            });
            if rang {
                setting.rings_at = None;
                self.sleep = None;
            }
            let replaced = setting.driver.replace(context.waker().clone());
            drop(setting);
            drop(replaced);
            if rang { Poll::Ready(()) } else { Poll::Pending }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use festina_units::Duration;

    use super::*;
    use crate::clock;

    async fn lateness(alarm: &Alarm, bell: &mut Bell, delay: Duration) -> Duration {
        let set_at = clock::now();
        alarm.set(delay);
        poll_fn(|context| bell.poll(context)).await;
        (clock::now() - set_at).checked_sub(delay).expect("an alarm never rings early")
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_alarm_is_closer_than_a_runtimes_timer_could_be() {
        let (alarm, mut bell) = Alarm::new(&crate::runtime::Tokio::current().unwrap()).unwrap();
        let mut late = Vec::new();
        for round in 0_u64..41 {
            late.push(lateness(&alarm, &mut bell, Duration::from_micros(1_000 + 70 * round)).await);
        }
        late.sort_unstable();
        let median = late[late.len() / 2];
        assert!(median < Duration::from_micros(500), "{median:?}");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_alarm_counts_the_time_in_suspension_as_the_clock_does() {
        let (alarm, _bell) = Alarm::new(&crate::runtime::Tokio::current().unwrap()).unwrap();
        let of_timer = |text: &str| text.lines().any(|line| line.split_whitespace().eq(["clockid:", "7"]));
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", alarm.number())).unwrap();
        assert!(of_timer(&text), "7 is CLOCK_BOOTTIME: {text}");
    }

    #[tokio::test]
    async fn the_last_setting_counts() {
        let (alarm, mut bell) = Alarm::new(&crate::runtime::Tokio::current().unwrap()).unwrap();
        alarm.set(Duration::from_secs(3_600));
        lateness(&alarm, &mut bell, Duration::from_millis(5)).await;
        alarm.set(Duration::from_millis(1));
        lateness(&alarm, &mut bell, Duration::from_millis(20)).await;
    }

    #[tokio::test]
    async fn an_alarm_set_by_another_thread_wakes_the_task_that_waits() {
        let (alarm, mut bell) = Alarm::new(&crate::runtime::Tokio::current().unwrap()).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(10));
                alarm.set(Duration::ZERO);
            });
        });
        poll_fn(|context| bell.poll(context)).await;
        assert_eq!(poll_fn(|context| Poll::Ready(bell.poll(context))).await, Poll::Pending, "it rings once");
    }
}
